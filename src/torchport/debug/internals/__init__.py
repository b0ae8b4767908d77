"""The one door to private parts of torch that debugging needs: a small file for each part, imported where used."""
