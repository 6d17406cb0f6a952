// Reads the residual codes of eight columns of a token from global memory, and decodes them.
//
// NOTES:
//  - Weights are looked up by four bits of codes at a time, or by eight bits if a code has eight bits. With four bits
//    every lane has its own copy of the table, so that the 32 look-ups of a warp never use the same bank. With eight
//    bits there is only one copy.
//  - Sums of centroid and weight are rounded to the type, as kernels/residual_codes.h says.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/plan/residual_shape.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda {

template <ScalarType kType>
struct CodedElement;
template <>
struct CodedElement<ScalarType::kF32> {
  using Type = float;
  static __device__ __forceinline__ uint32_t Bits(float value) { return __float_as_uint(value); }
};
template <>
struct CodedElement<ScalarType::kF16> {
  using Type = __half;
  using Pair = __half2;
  static __device__ __forceinline__ uint32_t Bits(float value) { return __half_as_ushort(__float2half_rn(value)); }
  static __device__ __forceinline__ float2 Widen(Pair pair) { return __half22float2(pair); }
};
template <>
struct CodedElement<ScalarType::kBF16> {
  using Type = __nv_bfloat16;
  using Pair = __nv_bfloat162;
  static __device__ __forceinline__ uint32_t Bits(float value) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
  }
  static __device__ __forceinline__ float2 Widen(Pair pair) { return __bfloat1622float2(pair); }
};

// The weights of codes in shared memory: [kEntries][kCopies] entries of kWords words each. The number of an entry
// consists of kColumns codes, the first in the lowest bits. The entry has the weights of these codes in this order: one
// per word in FP32, otherwise two per word.
template <ScalarType kType, int kNbits>
struct WeightTable {
  static constexpr int kIndexBits = kNbits == 8 ? 8 : 4;
  static constexpr int kColumns = kIndexBits / kNbits;
  static constexpr int kEntries = 1 << kIndexBits;
  static constexpr int kCopies = kNbits == 8 ? 1 : 32;
  static constexpr int kWords = kType == ScalarType::kF32 ? kColumns : (kColumns + 1) / 2;
  static constexpr int kBytes = kEntries * kCopies * kWords * 4;

  // Writes the table with all threads of the block.
  static __device__ __forceinline__ void Fill(uint8_t* table, const float* weights, int thread, int num_threads) {
    for (int idx = thread; idx < kEntries * kCopies; idx += num_threads) {
      const int entry = idx / kCopies;
      uint32_t words[kWords] = {};
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
        const uint32_t bits = CodedElement<kType>::Bits(weights[entry >> (column * kNbits) & ((1 << kNbits) - 1)]);
        if constexpr (kType == ScalarType::kF32) {
          words[column] = bits;
        } else {
          words[column / 2] |= bits << (column % 2 * 16);
        }
      }
#pragma unroll
      for (int word = 0; word < kWords; ++word) reinterpret_cast<uint32_t*>(table)[idx * kWords + word] = words[word];
    }
  }

  // Reads the entry of the kIdx-th kIndexBits bits of `codes`. `lane_table` is the table from the lane's copy on.
  template <int kIdx>
  static __device__ __forceinline__ void Read(const uint8_t* lane_table, const uint32_t (&codes)[2],
                                              uint32_t (&words)[kWords]) {
    constexpr int kShift = kIdx * kIndexBits % 32;
    const uint32_t number = codes[kIdx * kIndexBits / 32] >> kShift & (kEntries - 1);
    const uint8_t* const source = lane_table + number * (kCopies * kWords * 4);
    if constexpr (kWords == 4) {
      const uint4 entry = *reinterpret_cast<const uint4*>(source);
      words[0] = entry.x, words[1] = entry.y, words[2] = entry.z, words[3] = entry.w;
    } else if constexpr (kWords == 2) {
      const uint2 entry = *reinterpret_cast<const uint2*>(source);
      words[0] = entry.x, words[1] = entry.y;
    } else {
      words[0] = *reinterpret_cast<const uint32_t*>(source);
    }
  }
};

// The number of words of eight columns: two values per word, or one in FP32.
template <ScalarType kType>
inline constexpr int kColumnWords = kType == ScalarType::kF32 ? 8 : 4;

// Eight columns of a token as they are stored.
template <ScalarType kType>
struct CodedColumns {
  uint32_t centroid[kColumnWords<kType>];
  uint32_t codes[2];  // the bytes in their order; with fewer than 8 bits per column only the first word is used
};

// Reads eight columns of a row, from `column` on. `source` is the address of `column`, which is below `dim`. Columns
// from `dim` on become zero. If `aligned`, `dim` must be a multiple of eight.
template <ScalarType kType>
__device__ __forceinline__ void ReadEight(const uint8_t* source, int32_t column, int32_t dim, bool aligned,
                                          uint32_t (&words)[kColumnWords<kType>]) {
  if (aligned) {
#pragma unroll
    for (int part = 0; part < kColumnWords<kType> / 4; ++part) {
      const uint4 vector = __ldg(reinterpret_cast<const uint4*>(source) + part);
      words[4 * part] = vector.x, words[4 * part + 1] = vector.y;
      words[4 * part + 2] = vector.z, words[4 * part + 3] = vector.w;
    }
    return;
  }
#pragma unroll
  for (uint32_t& word : words) word = 0;
#pragma unroll
  for (int idx = 0; idx < kCodedLaneColumns; ++idx) {
    if (column + idx >= dim) continue;
    if constexpr (kType == ScalarType::kF32) {
      words[idx] = __ldg(reinterpret_cast<const uint32_t*>(source) + idx);
    } else {
      const uint32_t bits = __ldg(reinterpret_cast<const uint16_t*>(source) + idx);
      words[idx / 2] |= bits << (idx % 2 * 16);
    }
  }
}

// Reads the codes of eight columns, from `column` on, a multiple of eight. `source` is the address of the codes of
// `column`, in a row of `row_bytes` bytes.
template <int kNbits>
__device__ __forceinline__ void ReadCodes(const uint8_t* source, int32_t column, int32_t row_bytes, bool aligned,
                                          uint32_t (&codes)[2]) {
  if (aligned) {
    if constexpr (kNbits == 1) {
      codes[0] = __ldg(source);
    } else if constexpr (kNbits == 2) {
      codes[0] = __ldg(reinterpret_cast<const uint16_t*>(source));
    } else if constexpr (kNbits == 4) {
      codes[0] = __ldg(reinterpret_cast<const uint32_t*>(source));
    } else {
      const uint2 both = __ldg(reinterpret_cast<const uint2*>(source));
      codes[0] = both.x, codes[1] = both.y;
    }
  } else {
    const int32_t first = column / 8 * kNbits;
    codes[0] = codes[1] = 0;
#pragma unroll
    for (int byte = 0; byte < kNbits; ++byte) {
      if (first + byte < row_bytes) codes[byte / 4] |= static_cast<uint32_t>(__ldg(source + byte)) << (byte % 4 * 8);
    }
  }
}

// Looks up the weights of eight columns. The weights are in the same words as the values of the columns.
template <ScalarType kType, int kNbits>
__device__ __forceinline__ void ReadWeights(const uint8_t* lane_table, const uint32_t (&codes)[2],
                                            uint32_t (&words)[kColumnWords<kType>]) {
  using Table = WeightTable<kType, kNbits>;
  const auto read = [&](auto idx) {
    constexpr int kIdx = decltype(idx)::value;
    uint32_t entry[Table::kWords];
    Table::template Read<kIdx>(lane_table, codes, entry);
    constexpr int kColumn = kIdx * Table::kColumns;
    if constexpr (kType == ScalarType::kF32) {
#pragma unroll
      for (int word = 0; word < Table::kWords; ++word) words[kColumn + word] = entry[word];
    } else if constexpr (Table::kColumns > 1) {
#pragma unroll
      for (int word = 0; word < Table::kWords; ++word) words[kColumn / 2 + word] = entry[word];
    } else if constexpr (kColumn % 2 == 0) {
      words[kColumn / 2] = entry[0];
    } else {
      words[kColumn / 2] = __byte_perm(words[kColumn / 2], entry[0], 0x5410);
    }
  };
  const auto read_two = [&](auto first) {
    read(std::integral_constant<int, 2 * decltype(first)::value>());
    read(std::integral_constant<int, 2 * decltype(first)::value + 1>());
  };
  read_two(std::integral_constant<int, 0>());
  if constexpr (Table::kColumns <= 2) read_two(std::integral_constant<int, 1>());
  if constexpr (Table::kColumns == 1) {
    read_two(std::integral_constant<int, 2>());
    read_two(std::integral_constant<int, 3>());
  }
}

// Decodes eight columns. The first `present` of them are columns of the row; the others become zero. With kWhole, all
// eight are columns of the row if `present` is above 0, otherwise none. Adds the squares of the values to `squares`.
template <ScalarType kType, int kNbits, bool kWhole>
__device__ __forceinline__ void DecodeColumns(const CodedColumns<kType>& stored, const uint8_t* lane_table,
                                              bool colbert_bits, int32_t present,
                                              uint32_t (&values)[kColumnWords<kType>], float& squares) {
  uint32_t weights[kColumnWords<kType>];
  // If codes are in ColBERT's order, the bits of each byte are reversed here. Then in both orders the first column has
  // the lowest bits of a byte, and a bucket's lowest bit comes first.
  uint32_t codes[2] = {stored.codes[0], 0};
  if constexpr (kNbits == 8) codes[1] = stored.codes[1];
  if (colbert_bits) codes[0] = __byte_perm(__brev(codes[0]), 0, 0x0123);
  if (kNbits == 8 && colbert_bits) codes[1] = __byte_perm(__brev(codes[1]), 0, 0x0123);
  ReadWeights<kType, kNbits>(lane_table, codes, weights);
#pragma unroll
  for (int word = 0; word < kColumnWords<kType>; ++word) {
    if constexpr (kType == ScalarType::kF32) {
      float value = __fadd_rn(__uint_as_float(stored.centroid[word]), __uint_as_float(weights[word]));
      if (kWhole ? present <= 0 : word >= present) value = 0.0f;
      squares = __fmaf_rn(value, value, squares);
      values[word] = __float_as_uint(value);
    } else {
      using Element = CodedElement<kType>;
      typename Element::Pair centroid, weight;
      memcpy(&centroid, &stored.centroid[word], sizeof(centroid));
      memcpy(&weight, &weights[word], sizeof(weight));
      typename Element::Pair sum = __hadd2(centroid, weight);
      uint32_t bits;
      memcpy(&bits, &sum, sizeof(bits));
      if constexpr (kWhole) {
        bits = present > 0 ? bits : 0;
      } else if (2 * word + 1 >= present) {
        bits = 2 * word >= present ? 0 : bits & 0xffff;
      }
      memcpy(&sum, &bits, sizeof(bits));
      const float2 wide = Element::Widen(sum);
      squares = __fmaf_rn(wide.x, wide.x, squares);
      squares = __fmaf_rn(wide.y, wide.y, squares);
      values[word] = bits;
    }
  }
}

}  // namespace maxsim::cuda
