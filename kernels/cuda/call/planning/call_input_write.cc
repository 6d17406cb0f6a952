// Lays out the input of a call, and writes it.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/call/planning/call_input.h"
#include "kernels/cuda/call/planning/slice_capacity.h"
#include "kernels/plan/ceil_div.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda {
namespace {

// Writes a query tile in the order of StreamQueryOffset. `rows` has `num_rows` rows of `row_bytes`; only the first
// kQueryTileTokens count. Absent rows, and the bytes of a row from `row_bytes` up to `pitch`, become zeros. The tile is
// written front to back: a lane's operand is two words of a row, interleaved with two of the row 8 further on.
void WriteOperands(const uint8_t* rows, int32_t num_rows, size_t row_bytes, size_t pitch, uint8_t* query_tile) {
  static_assert(StreamQueryOffset(8, 0) == 4 && StreamQueryOffset(0, 4) == 8 && StreamQueryOffset(0, 8) == 16 &&
                StreamQueryOffset(1, 0) == 4 * 16 && StreamQueryOffset(16, 0) == 32 * 16 &&
                StreamQueryOffset(0, kStepBytes) == 2 * 32 * 16);
  constexpr uint64_t kLow = 0xffffffffu;
  constexpr size_t kPairs = kStepBytes / sizeof(uint64_t);
  using KStep = std::array<uint64_t, kPairs>;
  const auto step_of = [&](int32_t row, size_t begin) {
    KStep step{};
    if (row >= num_rows || begin >= row_bytes) return step;
    const uint8_t* const from = rows + static_cast<size_t>(row) * row_bytes + begin;
    if (row_bytes - begin >= sizeof(step)) {
      std::memcpy(step.data(), from, sizeof(step));
    } else {
      std::memcpy(step.data(), from, row_bytes - begin);
    }
    return step;
  };
  for (size_t begin = 0; begin < pitch; begin += kStepBytes) {
    for (int32_t half = 0; half < kQueryTileTokens; half += 16) {
      for (int32_t row = half; row < half + 8; ++row) {
        const KStep first = step_of(row, begin), second = step_of(row + 8, begin);
        for (size_t i = 0; i < kPairs; ++i) {
          const uint64_t operand[2] = {(first[i] & kLow) | second[i] << 32, first[i] >> 32 | (second[i] & ~kLow)};
          std::memcpy(query_tile, operand, sizeof(operand));
          query_tile += sizeof(operand);
        }
      }
    }
  }
}

}  // namespace

void CallInput::FinishLayout() {
  size_t end = 0;
  const auto append = [&end](int64_t count, size_t element_bytes) {
    const size_t begin = end;
    end = AlignPart(begin + static_cast<size_t>(count) * element_bytes);
    return begin;
  };
  layout_.row_tiles = append(static_cast<int64_t>(row_tiles_.size()), sizeof(RowTile));
  layout_.partial_sums = append(num_partial_sums(), sizeof(PartialSums));
  layout_.select_queries = append(num_select_queries(), sizeof(SelectQuery));
  layout_.row_weights = append(num_rows_, sizeof(float));
  layout_.query_rows = append(num_rows_, static_cast<size_t>(query_pitch_));
  layout_.joined_lists = append(num_joined_lists(), sizeof(JoinedList));
  layout_.unions = append(num_unions(), sizeof(JoinedUnion));
  layout_.mask = append(mask_words(), sizeof(uint64_t));
  layout_.mask_ranks = append(CeilDiv(mask_words(), kRankWords), sizeof(uint32_t));
  if (mask_words() > 0) layout_.total = end;
  layout_.ordinals = append(num_ordinals_, sizeof(uint32_t));
  if (mask_words() == 0) layout_.total = end;
  layout_.union_ordinals = append(num_union_ordinals_, sizeof(uint32_t));
  const bool quantized = type_ == ScalarType::kI8;
  layout_.quantized_rows =
      append(quantized ? num_rows_ : 0, static_cast<size_t>(StreamQueryPitch(DeviceRowBytes(type_, dim_))));
  layout_.factors = append(quantized ? num_rows_ : 0, sizeof(float));
  layout_.device_total = end;
}

void CallInput::Write(uint8_t* memory) const {
  const auto write = [memory](size_t offset, const auto& elements) {
    if (!elements.empty()) std::memcpy(memory + offset, elements.data(), elements.size() * sizeof(elements[0]));
  };
  write(layout_.row_tiles, row_tiles_);
  write(layout_.partial_sums, partial_sums_);
  write(layout_.select_queries, select_queries_);
  write(layout_.joined_lists, joined_lists_);
  write(layout_.unions, unions_);

  // Tokens are padded to rows; absent rows are zero and have weight zero.
  float* weights = reinterpret_cast<float*>(memory + layout_.row_weights);
  uint8_t* rows = memory + layout_.query_rows;
  const size_t token_bytes = static_cast<size_t>(dim_) * SizeOf(QueryType(type_));
  const size_t pitch = static_cast<size_t>(query_pitch_);
  const bool operands = operand_order() && type_ != ScalarType::kI8;
  for (const auto& [query, first_token, num_tokens, num_rows] : row_order_) {
    const uint8_t* tokens = static_cast<const uint8_t*>(query->tokens) + static_cast<size_t>(first_token) * token_bytes;
    const size_t absent = static_cast<size_t>(num_rows - num_tokens);
    if (operands) {
      for (int32_t i = 0; i < num_tokens; i += kQueryTileTokens) {
        WriteOperands(tokens + static_cast<size_t>(i) * token_bytes, num_tokens - i, token_bytes, pitch,
                      rows + static_cast<size_t>(i) * pitch);
      }
    } else {
      for (int32_t i = 0; i < num_tokens; ++i) {
        uint8_t* const row = rows + static_cast<size_t>(i) * pitch;
        std::memcpy(row, tokens + static_cast<size_t>(i) * token_bytes, token_bytes);
        std::memset(row + token_bytes, 0, pitch - token_bytes);
      }
      std::memset(rows + static_cast<size_t>(num_tokens) * pitch, 0, absent * pitch);
    }
    if (query->weights == nullptr || !weighted_) {
      weights = std::fill_n(weights, num_tokens, 1.0f);
    } else {
      weights = std::copy_n(query->weights + first_token, num_tokens, weights);
    }
    weights = std::fill_n(weights, absent, 0.0f);
    rows += static_cast<size_t>(num_rows) * pitch;
  }

  if (mask_words() > 0) {
    std::memcpy(memory + layout_.mask, mask_.data(), mask_.size() * sizeof(uint64_t));
    auto* ranks = reinterpret_cast<uint32_t*>(memory + layout_.mask_ranks);
    uint32_t rank = 0;
    for (int64_t word = 0; word < mask_words(); ++word) {
      if (word % kRankWords == 0) *ranks++ = rank;
      rank += static_cast<uint32_t>(std::popcount(mask_[static_cast<size_t>(word)]));
    }
  }
  uint8_t* ordinals = memory + layout_.ordinals;
  for (const absl::Span<const uint32_t> list : lists_) {
    std::memcpy(ordinals, list.data(), list.size() * sizeof(uint32_t));
    ordinals += list.size() * sizeof(uint32_t);
  }
}

}  // namespace maxsim::cuda
