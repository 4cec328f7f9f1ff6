"""TODO: controller/api/routes."""
