"""Models as drawings: a page whose blocks open by a click, and a picture."""
