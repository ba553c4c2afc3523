"""What the tests of the cases share."""
