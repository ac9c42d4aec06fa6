//! The compressed kernel in a boot image. An emulated CPU takes seconds to unpack it at each boot.
//!
//! The image's header is that of Documentation/arch/x86/boot.rst of Linux. QEMU starts an unpacked kernel by its note
//! `XEN_ELFNOTE_PHYS32_ENTRY`, which Debian's have (`CONFIG_PVH`).

/// First bytes of an XZ stream (The .xz File Format 1.2.1, 2.1.1.1).
const XZ: &[u8] = b"\xfd7zXZ\0";

/// The kernel in a boot image as an XZ stream; `None` if it is packed otherwise, or the header says nothing of it.
pub(crate) fn xz_stream(image: &[u8]) -> Option<&[u8]> {
    const SETUP_SECTORS: usize = 0x1f1;
    const MAGIC: usize = 0x202;
    const VERSION: usize = 0x206;
    const PAYLOAD_OFFSET: usize = 0x248;
    const PAYLOAD_LENGTH: usize = 0x24c;
    /// The first protocol version whose header has the payload.
    const WITH_PAYLOAD: usize = 0x208;
    const SECTOR: usize = 512;
    if image.get(MAGIC..)?.get(..4)? != b"HdrS" || number(image, VERSION, 2)? < WITH_PAYLOAD {
        return None;
    }
    // 0 is 4, for old loaders.
    let sectors = match number(image, SETUP_SECTORS, 1)? {
        0 => 4,
        sectors => sectors,
    };
    let start = number(image, PAYLOAD_OFFSET, 4)?.checked_add((sectors + 1) * SECTOR)?;
    let payload = image.get(start..)?.get(..number(image, PAYLOAD_LENGTH, 4)?)?;
    // The unpacked size follows the stream (scripts/Makefile.lib, size_append).
    let (stream, _size) = payload.split_last_chunk::<4>()?;
    Some(stream).filter(|stream| stream.starts_with(XZ))
}

/// A little-endian number of at most eight bytes; `None` beyond the end.
pub(crate) fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    let number = bytes.iter().rev().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with one sector of setup code, three bytes of code and this payload.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2 * 512 + 3];
        image[0x1f1] = 1;
        image[0x202..0x208].copy_from_slice(b"HdrS\x0f\x02");
        image[0x248] = 3;
        image[0x24c] = payload.len() as u8;
        image.extend_from_slice(payload);
        image.extend_from_slice(b"what follows");
        image
    }

    #[test]
    fn a_kernel_that_is_packed_with_xz_is_found_without_its_size() {
        assert_eq!(
            xz_stream(&image(b"\xfd7zXZ\0packed\x04\0\0\0")),
            Some(&b"\xfd7zXZ\0packed"[..])
        );
    }

    #[test]
    fn an_image_that_is_packed_otherwise_or_cut_off_has_none() {
        assert_eq!(xz_stream(&image(b"\x28\xb5\x2f\xfdzstd\x04\0\0\0")), None);
        let whole = image(b"\xfd7zXZ\0packed\x04\0\0\0");
        for length in [0, 0x1f1, 0x203, 0x24e, 1024, whole.len() - 13] {
            assert_eq!(xz_stream(&whole[..length]), None, "{length}");
        }
        let old = [&whole[..0x206], b"\x07\x02", &whole[0x208..]].concat();
        assert_eq!(xz_stream(&old), None);
    }
}
