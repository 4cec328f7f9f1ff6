"""Bounds as they are recommended, published and acknowledged, generation by generation."""
