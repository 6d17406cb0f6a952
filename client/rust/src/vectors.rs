//! Token vectors in requests and answers: `{"dtype", "shape", "data"}` with the values as base64.

use serde_json::{json, Value};

use crate::error::Error;

/// Token vectors: one row per token, all of the same length, as FP32. A call refuses vectors without rows, and rows that
/// differ in length.
///
/// ```
/// use maxsim::Vectors;
///
/// let rows = Vectors::from(vec![vec![0.1, 0.2], vec![0.3, 0.4]]);
/// let flat = Vectors::flat(vec![0.1, 0.2, 0.3, 0.4], 2);
/// assert_eq!(rows, flat);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    values: Vec<f32>,
    dim: usize,
    /// Index and length of the first row whose length is not `dim`, or of an incomplete last row.
    uneven: Option<(usize, usize)>,
}

impl Vectors {
    /// Takes the values of all rows, one row after the other, `dim` values each.
    #[must_use]
    pub fn flat(values: Vec<f32>, dim: usize) -> Self {
        let rest = if dim == 0 { 0 } else { values.len() % dim };
        let uneven = (rest != 0).then(|| (values.len() / dim, rest));
        Self { values, dim, uneven }
    }

    /// Copies rows.
    #[must_use]
    pub fn from_rows<R: AsRef<[f32]>>(rows: &[R]) -> Self {
        let dim = rows.first().map_or(0, |row| row.as_ref().len());
        // Not rows.len() * dim: if the rows differ, that may be more than the memory.
        let mut values = Vec::with_capacity(rows.iter().map(|row| row.as_ref().len()).sum());
        let mut uneven = None;
        for (i, row) in rows.iter().map(AsRef::as_ref).enumerate() {
            if uneven.is_none() && row.len() != dim {
                uneven = Some((i, row.len()));
            }
            values.extend_from_slice(row);
        }
        Self { values, dim, uneven }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn num_tokens(&self) -> usize {
        if self.dim == 0 {
            0
        } else {
            self.values.len() / self.dim
        }
    }

    /// Returns the length of a row.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the values of all rows, one row after the other.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns the rows, in their order.
    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.dim.max(1))
    }

    /// Returns the matrix of a request. `name` is that of the argument, for errors.
    pub(crate) fn to_json(&self, name: &str) -> Result<Value, Error> {
        if let Some((row, length)) = self.uneven {
            let message = format!("{}[{}] has {} values; every row must have {}", name, row, length, self.dim);
            return Err(Error::argument(message));
        }
        if self.num_tokens() == 0 {
            let message = format!("{} has no vectors; must have at least one row of numbers", name);
            return Err(Error::argument(message));
        }
        let mut bytes = Vec::with_capacity(self.values.len() * 4);
        for value in &self.values {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        Ok(json!({"dtype": "f32", "shape": [self.num_tokens(), self.dim], "data": to_base64(&bytes)}))
    }

    /// Reads the matrix of an answer. `scale` multiplies the values of an I8 matrix.
    pub(crate) fn from_json(matrix: &Value, scale: f32) -> Result<Self, Error> {
        let wrong = |what: &str| crate::answers::wrong(&format!("tokens.{}", what));
        let dim = matrix["shape"][1].as_u64().ok_or_else(|| wrong("shape"))? as usize;
        let data = matrix["data"].as_str().ok_or_else(|| wrong("data"))?;
        let bytes = from_base64(data).ok_or_else(|| wrong("data"))?;
        let dtype = matrix["dtype"].as_str().unwrap_or_default();
        let values = match dtype.to_ascii_lowercase().as_str() {
            "f32" => of_words(&bytes, f32::from_le_bytes),
            "f16" => of_words(&bytes, |pair| f32_of_f16(u16::from_le_bytes(pair))),
            "bf16" => of_words(&bytes, |pair| f32::from_bits(u32::from(u16::from_le_bytes(pair)) << 16)),
            "i8" => of_words(&bytes, |[byte]| f32::from(byte as i8) * scale),
            _ => return Err(wrong(&format!("dtype ({:?} is not known)", dtype))),
        };
        let made = Self::flat(values, dim);
        if matrix["shape"][0].as_u64() != Some(made.num_tokens() as u64) || made.uneven.is_some() {
            return Err(wrong("shape"));
        }
        Ok(made)
    }
}

impl<R: AsRef<[f32]>> From<Vec<R>> for Vectors {
    fn from(rows: Vec<R>) -> Self {
        Self::from_rows(&rows)
    }
}

fn of_words<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let word = |chunk: &[u8]| chunk.try_into().map(&convert).unwrap_or_default();
    bytes.chunks_exact(N).map(word).collect()
}

fn f32_of_f16(half: u16) -> f32 {
    let fraction = f32::from(half & 0x3ff);
    let magnitude = match (half >> 10) & 0x1f {
        0 => fraction * 2f32.powi(-24),
        0x1f if fraction == 0.0 => f32::INFINITY,
        0x1f => f32::NAN,
        exponent => (1.0 + fraction / 1024.0) * 2f32.powi(i32::from(exponent) - 15),
    };
    if half & 0x8000 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

// These two functions of the crate base64 are deprecated from 0.21 on. Version 0.13 lacks their replacement.
#[allow(deprecated)]
fn to_base64(bytes: &[u8]) -> String {
    base64::encode(bytes)
}

#[allow(deprecated)]
fn from_base64(text: &str) -> Option<Vec<u8>> {
    base64::decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dtype: &str, shape: [usize; 2], bytes: &[u8], scale: f32) -> Result<Vectors, Error> {
        Vectors::from_json(&json!({"dtype": dtype, "shape": shape, "data": to_base64(bytes)}), scale)
    }

    fn bits(vectors: &Vectors) -> Vec<u32> {
        vectors.values().iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn fp32_values_keep_their_bits_in_both_directions() {
        let values = vec![0.0, -0.0, 1.5, f32::MIN_POSITIVE / 2.0, f32::MAX, f32::NEG_INFINITY, f32::NAN, 0.1];
        let sent = Vectors::flat(values, 4);
        let matrix = sent.to_json("query").unwrap();
        assert_eq!(matrix["shape"], json!([2, 4]));
        assert_eq!(bits(&Vectors::from_json(&matrix, 1.0).unwrap()), bits(&sent));
        let one = Vectors::flat(vec![1.5], 1).to_json("query").unwrap();
        assert_eq!(one, json!({"dtype": "f32", "shape": [1, 1], "data": "AADAPw=="}));
    }

    #[test]
    fn fp16_values_are_converted_exactly() {
        let cases: [(u16, f32); 10] = [
            (0x0000, 0.0),
            (0x8000, -0.0),
            (0x3c00, 1.0),
            (0xc100, -2.5),
            (0x7bff, 65504.0),
            (0x0400, 6.103_515_6e-5),
            (0x03ff, 6.097_555e-5),
            (0x0001, 5.960_464_5e-8),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ];
        for (half, expected) in cases {
            let found = read("F16", [1, 1], &half.to_le_bytes(), 1.0).unwrap();
            assert_eq!(bits(&found), [expected.to_bits()], "{half:#06x}");
        }
        assert!(f32_of_f16(0x7e00).is_nan());
    }

    #[test]
    fn bf16_and_i8_values_are_converted() {
        let found = read("bf16", [1, 2], &[0x80, 0x3f, 0x20, 0xc0], 1.0).unwrap();
        assert_eq!(found.values(), [1.0, -2.5]);
        let found = read("i8", [2, 2], &[0, 127, 128, 255], 0.5).unwrap();
        assert_eq!(found.rows().collect::<Vec<_>>(), [[0.0, 63.5], [-64.0, -0.5]]);
    }

    #[test]
    fn wrong_matrices_of_answers_are_errors() {
        for (dtype, shape, bytes) in [("f64", [1, 1], 8), ("f32", [2, 1], 4), ("f32", [1, 2], 4), ("f16", [1, 0], 2)] {
            let error = read(dtype, shape, &vec![0; bytes], 1.0).unwrap_err();
            assert_eq!(error.code(), crate::Code::Internal, "{dtype} {shape:?}");
        }
        assert!(Vectors::from_json(&json!({"dtype": "f32", "shape": [1, 1], "data": "?"}), 1.0).is_err());
    }

    #[test]
    fn rows_that_differ_and_missing_rows_are_refused() {
        let message = |vectors: Vectors| vectors.to_json("query").unwrap_err().message().to_string();
        let uneven = Vectors::from(vec![vec![1.0, 2.0], vec![1.0]]);
        assert_eq!(message(uneven), "query[1] has 1 values; every row must have 2");
        assert_eq!(message(Vectors::flat(vec![0.0; 5], 3)), "query[1] has 2 values; every row must have 3");
        let none = "query has no vectors; must have at least one row of numbers";
        assert_eq!(message(Vectors::from_rows::<Vec<f32>>(&[])), none);
        assert_eq!(message(Vectors::from(vec![Vec::<f32>::new()])), none);
        assert!(message(Vectors::flat(vec![1.0], 0)).contains("query"));
        let mut one_long = vec![vec![]; 1 << 20];
        one_long[0] = vec![0.0; 1 << 20];
        assert_eq!(message(one_long.into()), "query[1] has 0 values; every row must have 1048576");
    }
}
