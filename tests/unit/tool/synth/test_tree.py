"""Trees of components: a component once times its instances, and cells by their names."""

from diastole.synth.tree import from_cells, from_modules, scope_of

MODULES = {
    "m": {"LUT": 1, "m_a": 2, "m_ram": 1},
    "m_a": {"FF": 3, "m_b": 4},
    "m_b": {"LUT": 5, "other": 7},
}


def counted(kind):
    return {"LUT": {"luts": 1.0}, "FF": {"registers": 1.0}}.get(kind, {})


def test_a_component_is_mapped_once_and_multiplied():
    tree = from_modules(MODULES, "m", counted, prefix="m_")
    assert tree.local == {"luts": 1}
    assert tree.total == {"luts": 1 + 2 * 4 * 5, "registers": 2 * 3}
    (a,) = tree.parts
    assert (a.name, a.instances, a.local) == ("a", 2, {"registers": 6})
    (b,) = a.parts
    assert (b.name, b.instances, b.local, b.total) == ("b", 8, {"luts": 40}, {"luts": 40})


def test_places_of_a_component():
    tree = from_modules({**MODULES, "m": {"m_a": 1, "m_b": 2}}, "m", counted, prefix="m_")
    assert sorted(each.instances for each in tree.everywhere("b")) == [2, 4]
    assert tree.everywhere("c") == []


SCOPES = {"a_0": "m_a", "a_1": "m_a", "a_0.b_0": "m_b", "a_1.b_0": "m_b", "a_1.b_1": "m_b"}
CELLS = [
    ("x_LUT_Z", "LUT"),
    ("a_0.x_FF_Q", "FF"),
    ("a_1.x_FF_Q", "FF"),
    ("a_1.ram.0.0", "FF"),
    ("a_0.b_0.y_LUT_Z", "LUT"),
    ("a_1.b_0.y_LUT_Z", "LUT"),
    ("a_1.b_1.y_LUT_Z_1", "LUT"),
    ("a_1", "$scopeinfo"),
]


def test_cells_of_a_flat_design_belong_to_the_innermost_instance():
    tree = from_cells(CELLS, SCOPES, "m", counted, prefix="m_")
    assert (tree.name, tree.local) == ("m", {"luts": 1})
    assert tree.total == {"luts": 4, "registers": 3}
    (a,) = tree.parts
    assert (a.name, a.instances, a.local) == ("a", 2, {"registers": 3})
    (b,) = a.parts
    assert (b.name, b.instances, b.local) == ("b", 3, {"luts": 3})


def test_scopes():
    assert scope_of("a_0.b_0.y", SCOPES) == "a_0.b_0"
    assert scope_of("a_0.b_9.y", SCOPES) == "a_0"
    assert scope_of("b_0.y", SCOPES) == ""


def test_record():
    tree = from_modules(MODULES, "m", counted, prefix="m_")
    found = tree.record(("registers", "luts", "dsps"))
    assert found["total"] == {"registers": 6, "luts": 41, "dsps": 0}
    assert found["local"] == {"registers": 0, "luts": 1, "dsps": 0}
    assert [part["component"] for part in found["parts"]] == ["a"]
    assert found["parts"][0]["parts"][0]["instances"] == 8
    small = from_modules({"m": {"LUT": 1}}, "m", lambda kind: {"nand2": 1.26})
    assert small.record(["nand2"])["local"] == {"nand2": 1.3}
