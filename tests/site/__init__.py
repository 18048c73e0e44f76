"""The examples of the pages run: one project is made of each page, and used as the page says."""
