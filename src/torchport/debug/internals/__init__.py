"""The one door to private parts of torch that debugging needs: a small file a part, imported where it is used."""
