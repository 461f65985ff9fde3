"""What people keep in modules beside their notebook: each way in which a training comes to be called there."""
