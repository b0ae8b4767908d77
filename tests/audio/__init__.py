"""The audio crate: every transform beside torch and torchaudio."""
