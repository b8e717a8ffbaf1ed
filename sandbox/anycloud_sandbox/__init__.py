"""The world outside for laptops and tests: clouds, buckets, DNS, GitHub, a registry and a small Kubernetes."""
