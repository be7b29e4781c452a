"""What stands behind ``emqctl demo``: a server of its own and a sample world."""
