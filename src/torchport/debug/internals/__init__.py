"""The one door to private parts of torch that debugging needs: a file for each part, imported where it is used."""
