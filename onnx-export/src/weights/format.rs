//! Files that are not safetensors: what they are, and where their content is to be had in a format we read.
//!
//! Weights come as PyTorch pickles, GGUF and half-finished downloads as often as they come as safetensors. A reader that
//! only says "invalid header" sends its user to search; so what a file is gets recognised by its first bytes. Pickles
//! are never read: they are programs, and running one is how a download takes over a machine.

use std::path::Path;

/// A file format that we know and do not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// What the file is, with its article.
    pub(crate) what: &'static str,
    /// What to do instead.
    pub(crate) remedy: &'static str,
}

const PICKLE: Foreign = Foreign {
    what: "a PyTorch pickle",
    remedy: "take the safetensors file of the diffusers release, or convert it as docs/weights.md shows",
};

const GGUF: Foreign =
    Foreign { what: "a GGUF file", remedy: "take the release in F32, F16 or BF16 safetensors" };

/// First bytes of files that are taken for weights.
const MAGIC: &[(&[u8], Foreign)] = &[
    (b"PK\x03\x04", PICKLE),
    // Protocol 2 and later, as `torch.save` wrote before it turned to zip archives.
    (b"\x80\x02", PICKLE),
    (b"\x80\x03", PICKLE),
    (b"\x80\x04", PICKLE),
    (b"GGUF", GGUF),
    (
        b"version https://git-lfs",
        Foreign { what: "a Git LFS pointer and not the file itself", remedy: "run `git lfs pull`" },
    ),
    (
        b"<",
        Foreign {
            what: "a web page",
            remedy: "download it again: the server answered with an error or asked for a login",
        },
    ),
    (b"{", Foreign { what: "a JSON file", remedy: "name the weights or their folder" }),
];

/// Extensions under which weights are kept in formats that we do not read.
pub(crate) const TWINS: &[&str] = &["pth", "pt", "bin", "ckpt", "gguf"];

/// What a file that begins with `head` is, if it is something that we know.
pub(crate) fn recognise(head: &[u8]) -> Option<Foreign> {
    // A safetensors file begins with the length of its header, far below 2^40, and the header's brace.
    let is_safetensors = head.get(5..9) == Some(b"\0\0\0{");
    let known = MAGIC.iter().find(|(magic, _)| !is_safetensors && head.starts_with(magic));
    known.map(|(_, foreign)| *foreign)
}

/// What a file is by its name, if it holds weights in a format that we do not read.
pub(crate) fn by_name(path: &Path) -> Option<Foreign> {
    match path.extension()?.to_str()? {
        "gguf" => Some(GGUF),
        end if TWINS.contains(&end) => Some(PICKLE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_formats() {
        for (head, what) in [
            (b"PK\x03\x04\0\0\x08\x08archive/data.pkl".as_slice(), "a PyTorch pickle"),
            (b"\x80\x02\x8a\nl\xfc", "a PyTorch pickle"),
            (b"GGUF\x03\0\0\0\x04\0\0\0", "a GGUF file"),
            (
                b"version https://git-lfs.example/spec/v1\noid sha256:",
                "a Git LFS pointer and not the file itself",
            ),
            (b"<!DOCTYPE html><html>", "a web page"),
            (b"{\"weight_map\": {", "a JSON file"),
        ] {
            assert_eq!(recognise(head).map(|foreign| foreign.what), Some(what));
        }
        assert_eq!(recognise(b"nothing of the kind"), None);
        assert_eq!(recognise(b""), None);
        // Whatever the length in front, a safetensors header is not taken for another format.
        for length in [0x3cu64, 0x7b, 0x280, 0x4b50, 0x0403_4b50] {
            assert_eq!(recognise(&[&length.to_le_bytes()[..], b"{\""].concat()), None, "{length:#x}");
        }
    }

    #[test]
    fn names_tell_formats_that_hold_weights() {
        assert_eq!(by_name(Path::new("Wan2.1_VAE.pth")), Some(PICKLE));
        assert_eq!(by_name(Path::new("a/model.Q8_0.gguf")), Some(GGUF));
        assert_eq!(by_name(Path::new("model.safetensors")), None);
    }
}
