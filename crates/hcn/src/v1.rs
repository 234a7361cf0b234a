//! HNS v1 documents and their conversion to and from v2.
