"""The configuration, studies, findings and expectations as files: read, checked, documented."""
