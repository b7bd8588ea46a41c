"""What the document can't generate by itself: images that decode."""

import schemathesis
from hypothesis import strategies as st
from images import data_url, png

images = st.builds(png, st.integers(1, 64), st.integers(1, 64), st.integers(0, 255))

schemathesis.openapi.format("data-url", images.map(data_url))
for media_type in ("image/png", "image/jpeg", "image/webp"):
    schemathesis.openapi.media_type(media_type, images)
