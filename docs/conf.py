"""The documentation: MyST pages, furo's looks, Chinese through gettext (``make docs``)."""

from importlib.metadata import version as version_of

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging

project = "regard"
author = "the regard authors"
copyright = "the regard authors"
release = version = version_of("regard")
html_title = f"regard {version}"
html_theme = "furo"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"

locale_dirs = ["locale"]
gettext_compact = False
gettext_uuid = False

# Its text is the docstrings', which are English.
UNTRANSLATED = {"api"}
# Written in each language, not translated.
WRITTEN = ("learn/", "mechanisms/")


def own_language(app: Sphinx, config: Config) -> None:
    """Lessons and mechanisms are written in both languages, from one source, not translated."""
    other = "zh" if config.language == "en" else "en"
    config.exclude_patterns += [f"learn/{other}", f"mechanisms/{other}.md"]


def check_translation(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """A paragraph without its Chinese is a warning, and so an error, in the Chinese build."""
    if app.config.language == "en" or docname in UNTRANSLATED or docname.startswith(WRITTEN):
        return
    progress = doctree["translation_progress"]
    # The words of an image are put in place without being counted.
    alts = [image.get("alt", "") for image in doctree.findall(nodes.image)]
    told = progress["translated"] + sum(not alt.isascii() for alt in alts)
    if told < progress["total"]:
        logging.getLogger(__name__).warning(
            "%d of %d texts have no translation; run scripts/translations.sh",
            progress["total"] - told,
            progress["total"],
            location=docname,
        )


def setup(app: Sphinx) -> None:
    app.connect("config-inited", own_language)
    app.connect("doctree-resolved", check_translation)
