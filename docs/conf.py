"""Sphinx builds the site of the documents by this file; ``make docs`` calls Sphinx."""

project = "Diastole"
html_title = "Diastole"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["pictures.css"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks have their outputs stored; `make test` compares them
autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_google_docstring = False
napoleon_custom_sections = [("Members", "params_style")]
highlight_language = "none"
html_show_sphinx = False
html_show_copyright = False


def setup(app):
    """Let a paragraph below a list of parameters end the list."""
    app.connect("autodoc-process-docstring", _end_lists, priority=400)


def _end_lists(app, what, name, thing, options, lines):
    for number in range(len(lines) - 1, 0, -1):
        line, following = lines[number], "".join(lines[number + 1 : number + 2])
        plain = line and not line.startswith((" ", "-")) and " : " not in line
        if plain and not lines[number - 1] and not following.startswith((" ", "-")):
            lines.insert(number, "")
