"""The models behind the roles of a profile: embedded folders, hub downloads, embedders."""
