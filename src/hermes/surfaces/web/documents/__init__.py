"""The HTML of the page and the files that browsers load."""
