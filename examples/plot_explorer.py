"""
Explore the embeddings of a citation graph
==========================================

``explore`` embeds the nodes for a grid of alpha and returns a page with sliders. If Cora is not
available, the digits of scikit-learn replace it.
"""

# sphinx_gallery_thumbnail_path = "images/explore.png"

from gpcanet import GPCAPath, explore
from gpcanet.datasets import DataUnavailableError, load

try:
    data = load("cora")
except DataUnavailableError:
    data = load("digits")
page = explore(data, path=GPCAPath(32, alphas=[0, 1, 5, 10, 50], betas=[0]), layout="pca")
page
