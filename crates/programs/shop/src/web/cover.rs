//! Images of book covers, of the sizes that TPC-W asks for.

use std::fmt::Write;

use fabricmark_bookstore::cover_kib;

/// An image kind: its name in addresses, and width and height in pixels.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub name: &'static str,
    width: u32,
    height: u32,
}

/// The large image of a book.
pub const COVER: Kind = Kind { name: "cover", width: 300, height: 400 };
/// The small one.
pub const THUMBNAIL: Kind = Kind { name: "thumbnail", width: 120, height: 160 };

/// Size of a thumbnail, as in the University of Wisconsin's implementation.
const THUMBNAIL_KIB: u16 = 5;

/// Cloth, its shade on the spine, and the ornament of covers.
const COLOURS: [[[u8; 3]; 3]; 10] = [
    [[38, 70, 83], [28, 52, 62], [233, 196, 106]],
    [[122, 46, 46], [92, 34, 34], [240, 214, 180]],
    [[46, 92, 70], [34, 69, 52], [226, 230, 200]],
    [[60, 60, 98], [44, 44, 74], [220, 205, 235]],
    [[176, 112, 48], [140, 87, 36], [252, 240, 214]],
    [[32, 94, 118], [23, 71, 90], [206, 232, 238]],
    [[98, 60, 92], [74, 44, 70], [244, 212, 226]],
    [[82, 90, 66], [61, 68, 49], [236, 228, 190]],
    [[70, 74, 84], [51, 54, 62], [214, 220, 226]],
    [[150, 70, 62], [116, 53, 47], [250, 224, 196]],
];

/// Paper of the label.
const PAPER: [u8; 3] = [250, 246, 236];

/// The image of a cover, by its number, as a PNG file of exactly the size that TPC-W asks for.
pub fn image(number: u32, kind: Kind) -> Vec<u8> {
    let kib = if kind.name == COVER.name { cover_kib(number) } else { THUMBNAIL_KIB };
    padded(draw(number, kind), usize::from(kib) * 1024)
}

/// A picture with an indexed palette.
fn draw(number: u32, Kind { width, height, .. }: Kind) -> Vec<u8> {
    let [cloth, spine, ornament] = COLOURS[(number % 10) as usize];
    let shape = number / 10;
    let pixel = |x: u32, y: u32| {
        // In hundredths of the width.
        let (x, y) = ((100 * x / width) as i32, (100 * y / width) as i32);
        let (dx, dy) = (x - 54, y - 92);
        let is_label = (22..88).contains(&x) && (16..50).contains(&y);
        if x < 8 {
            1
        } else if is_label {
            let is_line = (28..82).contains(&x) && (24..30).contains(&y)
                || (34..76).contains(&x) && (36..40).contains(&y);
            if is_line { 1 } else { 3 }
        } else {
            let radius = dx * dx + dy * dy;
            let is_ornament = match shape % 10 {
                0 => radius < 500,
                1 => (300..560).contains(&radius),
                2 => dx.abs() + dy.abs() < 26,
                3 => dy.abs() < 24 && dy.rem_euclid(12) < 5 && dx.abs() < 30,
                4 => dx.abs() < 28 && dx.rem_euclid(10) < 4 && dy.abs() < 24,
                5 => dy.abs() < 24 && dx.abs() * 24 < (dy + 24) * 14,
                6 => radius < 620 && (dx + dy).rem_euclid(9) < 4,
                7 => dx.abs().max(dy.abs()) < 22 && dx.abs().max(dy.abs()) % 8 < 4,
                8 => radius < 600 && dx * dx + (dy - 10) * (dy - 10) > 380,
                _ => dx.abs() < 7 && dy.abs() < 26 || dy.abs() < 7 && dx.abs() < 26,
            };
            if is_ornament { 2 } else { 0 }
        }
    };
    let pixels: Vec<u8> = (0..height).flat_map(|y| (0..width).map(move |x| pixel(x, y))).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette([cloth, spine, ornament, PAPER].concat());
    // Only an error of the writer, a vector, could occur.
    let _ = encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels));
    file
}

/// Bytes of a chunk besides its data: length, type and checksum (PNG, third edition, section 5.3).
const CHUNK: usize = 12;

/// Length of the last chunk, IEND.
const END: usize = CHUNK;

/// The file with a text chunk before its last chunk, so that it has this length. It must be shorter by at least the
/// chunk's own overhead.
fn padded(mut file: Vec<u8>, bytes: usize) -> Vec<u8> {
    let keyword = b"Comment\0";
    let room = bytes.saturating_sub(file.len() + CHUNK + keyword.len());
    let mut text = String::with_capacity(room + 8);
    while text.len() < room {
        let _ = write!(text, "{:07} ", text.len());
    }
    text.truncate(room);
    let mut chunk = b"tEXt".to_vec();
    chunk.extend(keyword);
    chunk.extend(text.as_bytes());
    let length = (chunk.len() - 4) as u32;
    let checksum = crc32(&chunk);
    let end = file.split_off(file.len() - END);
    file.extend(length.to_be_bytes());
    file.extend(chunk);
    file.extend(checksum.to_be_bytes());
    file.extend(end);
    file
}

/// The checksum of PNG chunks (section 5.5).
fn crc32(bytes: &[u8]) -> u32 {
    crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(bytes)
}

#[cfg(test)]
mod tests {
    use fabricmark_bookstore::COVERS;

    use super::*;

    #[test]
    fn images_are_pictures_of_the_size_that_tpc_w_asks_for() {
        for number in 0..COVERS {
            for (kind, kib) in [(COVER, cover_kib(number)), (THUMBNAIL, 5)] {
                let file = image(number, kind);
                assert_eq!(file.len(), 1024 * usize::from(kib), "{number}");
                let mut reader =
                    png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
                let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
                let frame = reader.next_frame(&mut pixels).unwrap();
                assert_eq!((frame.width, frame.height), (kind.width, kind.height));
                reader.finish().unwrap();
            }
        }
    }
}
