"""What a request must see now: Pods, tokens, offers, status."""
