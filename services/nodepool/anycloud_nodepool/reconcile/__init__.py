"""What brings node pools to where they are to be."""
