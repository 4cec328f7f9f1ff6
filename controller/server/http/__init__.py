"""What the routes of the REST interface share."""
