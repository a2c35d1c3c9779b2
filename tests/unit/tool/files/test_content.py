"""Files that a user names, and what is wrong with them in words."""

import pytest

from diastole.errors import BadInput
from diastole.files.content import read_content, read_toml


@pytest.mark.parametrize(
    "content, problem",
    [
        (b"a = ", "is not a TOML file: Invalid value"),
        (b"a = 1\na = 2\n", "is not a TOML file: Cannot overwrite a value"),
        (b"\xff", "is not a TOML file: the text is not UTF-8"),
        (b"a = " + b"9" * 5000, "is not a TOML file: an integer has too many digits"),
        (b"a = " + b"[" * 100_000, "is not a TOML file: the values are nested too deeply"),
        (b"#" * ((1 << 20) + 1), "is not a plan: the file has more than 1048576 bytes"),
    ],
)
def test_what_is_no_plan(tmp_path, content, problem):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read_toml(path, "plan")
    assert str(caught.value).startswith(f"{path}: {problem}")


def test_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("a = 1\n", "utf-8-sig")
    text = f"^{path}: begins with a byte order mark; save the file as UTF-8 without the mark$"
    with pytest.raises(BadInput, match=text):
        read_toml(path, "plan")


def test_what_can_be_read(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"a = 1\n")
    assert read_toml(path, "plan") == {"a": 1}
    assert read_content(path, 6, "plan") == b"a = 1\n"
    with pytest.raises(BadInput, match=r"there is no such file$"):
        read_content(tmp_path / "b", 6, "plan")
