"""The page that shows a program at all levels of its compilation: `oc.view`, and `ocannl-view` on text."""
