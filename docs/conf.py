"""Settings of the documentation site, which ``make docs`` builds in docs/_build/html."""

import importlib.util
import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
os.environ.setdefault("GPCANET_OFFLINE", "1")  # the gallery uses Cora only if it is at hand

import api_pages  # noqa: E402

import gpcanet  # noqa: E402

api_pages.write(DOCS / "api")

project = "GPCANet"
project_copyright = "The GPCANet developers"
version = release = gpcanet.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "**.ipynb", "**.py.md5", "**.zip"]
templates_path = ["_templates"]
language = "en_GB"

# -- Markdown: the pages are also read on GitHub --------------------------------------------
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

# -- API: one page per public name ----------------------------------------------------------
autosummary_generate = True
autosummary_imported_members = True
autosummary_filename_map = api_pages.file_names()
autodoc_typehints = "none"  # the docstrings have the types
numpydoc_show_class_members = False  # the template lists the methods
add_module_names = False
toc_object_entries_show_parents = "hide"

# -- Examples -------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "backreferences_dir": "api/backreferences",
    "doc_module": ("gpcanet",),
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (500, 300),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
    "matplotlib_animations": False,
}

# -- HTML, readable without a network -------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "GPCANet"
mathjax = importlib.util.find_spec("sphinx-mathjax-offline")
# One file with the fonts inside, in place of the script of a content delivery network.
html_static_path = ["_static", str(Path(mathjax.origin).parent / "static/mathjax/tex-svg.js")]
mathjax_path = "tex-svg.js"
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
}
html_sidebars = {"index": [], "recipes": [], "install": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

#: Pages of the site for files that the Markdown pages link to.
PAGES = {
    "../CHANGELOG.md": "changelog.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../examples/README.rst": "gallery/index.rst",
}


def link_to_pages(app, name, source):
    for file, page in PAGES.items():
        source[0] = source[0].replace(f"]({file})", f"]({page})")


def skip_generated_methods(app, kind, name, thing, skip, options):
    """Leave out methods that scikit-learn and PyG add to every class."""
    generated = re.fullmatch(r"set_\w+_request", name) or name in ("propagate", "edge_updater")
    return True if generated else None


def setup(app):
    app.connect("source-read", link_to_pages)
    app.connect("autodoc-skip-member", skip_generated_methods)
