"""The part of the packaging that a table cannot say: the folders' packages, found rather than listed."""

from setuptools import find_namespace_packages, setup

FOLDERS = ("models", "controller", "spark_jobs")

setup(
    packages=[
        f"tidemark.{name}"
        for folder in FOLDERS
        for name in find_namespace_packages(include=[folder, f"{folder}.*"], exclude=["*__pycache__*"])
    ],
    package_dir={f"tidemark.{folder}": folder for folder in FOLDERS},
)
