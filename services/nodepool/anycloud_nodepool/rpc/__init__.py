"""What node pools are asked."""
