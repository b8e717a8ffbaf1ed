"""What a person has accounts with: clouds, buckets, DNS, GitHub, an image registry; and the machines' SSH."""
