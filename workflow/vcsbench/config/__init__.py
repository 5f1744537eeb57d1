"""Read, check and document the configuration, studies, findings and expectations."""
