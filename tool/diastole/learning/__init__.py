"""Train networks of users on data of users: data, the task, and the file of a trained network."""
