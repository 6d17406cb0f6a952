#include "kernels/cpu/codes/expand.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/codes/code_levels.h"
#include "kernels/cpu/loops/pack.h"

namespace maxsim::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "a word's first byte is its lowest");

// 16 bytes, as bytes and as words: one vector register.
using ByteVector = uint8_t __attribute__((vector_size(16)));
using WordVector = uint32_t __attribute__((vector_size(16)));

WordVector LoadWords(const uint8_t* from) {
  WordVector loaded;
  std::memcpy(&loaded, from, sizeof(loaded));
  return loaded;
}

uint32_t LoadWord(const uint8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// Receives a row's columns, 16 at a time, and writes them as bytes. `flip` is 0, or 0x80 to add 128 to each byte
// (modulo 256).
struct ByteSink {
  char* to;
  uint8_t flip;
  [[gnu::always_inline]] void Put(int32_t column, ByteVector values) const {
    values ^= flip;
    std::memcpy(to + column, &values, sizeof(values));
  }
};

// Receives a row's columns, 16 at a time, and writes them as signed 16-bit numbers.
struct PairSink {
  char* to;
  [[gnu::always_inline]] void Put(int32_t column, ByteVector values) const {
    const ByteVector signs = -(values >> 7);  // all bits set in negative ones
    const ByteVector low =
        __builtin_shufflevector(values, signs, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const ByteVector high =
        __builtin_shufflevector(values, signs, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    std::memcpy(to + 2 * column, &low, sizeof(low));
    std::memcpy(to + 2 * column + 16, &high, sizeof(high));
  }
};

ByteVector Bits(WordVector words) { return reinterpret_cast<ByteVector>(words & 0x01010101u); }

// kHalfLevels4 as a polynomial in the three bits of the magnitude cell: the exclusive or of kLevelTerms[b] over all b
// whose bits are all set in the magnitude cell.
constexpr std::array<uint8_t, 8> kLevelTerms = [] {
  std::array<uint8_t, 8> terms{};
  for (size_t cell = 0; cell < terms.size(); ++cell) terms[cell] = static_cast<uint8_t>(kHalfLevels4[cell]);
  for (size_t bit = 1; bit < terms.size(); bit *= 2) {
    for (size_t cell = 0; cell < terms.size(); ++cell) {
      if ((cell & bit) != 0) terms[cell] = static_cast<uint8_t>(terms[cell] ^ terms[cell ^ bit]);
    }
  }
  return terms;
}();

// OnePlane, TwoPlanes and FourPlanes take the bits of 16 coordinates, in the lowest bits of 16 bytes, and return the
// values of the columns (kernels/cpu/codes/expand.h).
ByteVector OnePlane(ByteVector sign) { return sign + sign - 1; }

ByteVector TwoPlanes(ByteVector sign, ByteVector high) {
  constexpr uint8_t kLow = kLevels2[0];
  constexpr uint8_t kRise = kLevels2[1] - kLevels2[0];
  const ByteVector magnitude = kLow + (-high & kRise);
  const ByteVector negative = sign - 1;  // all bits set in negative coordinates
  return (magnitude ^ negative) - negative;
}

ByteVector FourPlanes(ByteVector sign, ByteVector high, ByteVector field) {
  const ByteVector low = -(field & 1);
  const ByteVector middle = -(field >> 1 & 1);
  const ByteVector top = -high;
  const ByteVector low_middle = low & middle;
  const ByteVector value = kLevelTerms[0] ^ (low & kLevelTerms[1]) ^ (middle & kLevelTerms[2]) ^
                           (low_middle & kLevelTerms[3]) ^ (top & kLevelTerms[4]) ^ (top & low & kLevelTerms[5]) ^
                           (top & middle & kLevelTerms[6]) ^ (top & low_middle & kLevelTerms[7]);
  return value ^ (sign - 1);
}

// Pointers to a token's row in each plane, or into these rows. Null for planes that are not read.
struct Rows {
  const uint8_t* signs = nullptr;
  const uint8_t* highs = nullptr;
  const uint8_t* fields = nullptr;
};

template <int kPlanes>
Rows RowsOf(const CodesView& codes, int64_t token) {
  const size_t place = static_cast<size_t>(token) * PlaneRowBytes(codes.shape.dim);
  Rows rows;
  rows.signs = codes.plane0 + place;
  if constexpr (kPlanes >= 2) rows.highs = codes.plane1 + place;
  if constexpr (kPlanes == 4) rows.fields = codes.planes23 + 2 * place;
  return rows;
}

// Returns the rows from a word on.
template <int kPlanes>
Rows FromWord(const Rows& rows, int32_t word) {
  Rows rest;
  rest.signs = rows.signs + word * 4;
  if constexpr (kPlanes >= 2) rest.highs = rows.highs + word * 4;
  if constexpr (kPlanes == 4) rest.fields = rows.fields + word * 8;
  return rest;
}

// Expands the columns of a group or of a tail word, 16 at a time. `sign(idx)`, `high(idx)` and `field(idx)` return
// words with the bits of columns 16 idx .. 16 idx + 15 in the lowest bits of their bytes.
template <int kPlanes, int kCount, class Sink, typename Sign, typename High, typename Field>
[[gnu::always_inline]] inline void ExpandColumns(Sign sign, High high, Field field, int32_t column, const Sink& sink) {
#pragma GCC unroll 8
  for (int idx = 0; idx < kCount; ++idx) {
    if constexpr (kPlanes == 1) {
      sink.Put(column + 16 * idx, OnePlane(Bits(sign(idx))));
    } else if constexpr (kPlanes == 2) {
      sink.Put(column + 16 * idx, TwoPlanes(Bits(sign(idx)), Bits(high(idx))));
    } else {
      const auto fields = reinterpret_cast<ByteVector>(field(idx) & 0x03030303u);
      sink.Put(column + 16 * idx, FourPlanes(Bits(sign(idx)), Bits(high(idx)), fields));
    }
  }
}

template <int kPlanes, class Sink>
[[gnu::always_inline]] inline void ExpandGroup(const Rows& rows, int32_t column, const Sink& sink) {
  const WordVector signs = LoadWords(rows.signs);
  const WordVector highs = kPlanes >= 2 ? LoadWords(rows.highs) : signs;
  WordVector even = signs;
  WordVector odd = signs;
  if constexpr (kPlanes == 4) {
    const WordVector lower = LoadWords(rows.fields);
    const WordVector upper = LoadWords(rows.fields + 16);
    even = __builtin_shufflevector(lower, upper, 0, 2, 4, 6);
    odd = __builtin_shufflevector(lower, upper, 1, 3, 5, 7);
  }
  ExpandColumns<kPlanes, 8>([&](int idx) { return signs >> idx; }, [&](int idx) { return highs >> idx; },
                            [&](int idx) { return (idx % 2 == 0 ? even : odd) >> (idx / 2 * 2); }, column, sink);
}

template <int kPlanes, class Sink>
[[gnu::always_inline]] inline void ExpandTailWord(const Rows& rows, int32_t column, const Sink& sink) {
  constexpr WordVector kShifts = {0, 1, 2, 3};
  constexpr WordVector kFieldShifts = {0, 0, 2, 2};
  const WordVector signs = WordVector{} + LoadWord(rows.signs);
  const WordVector highs = kPlanes >= 2 ? WordVector{} + LoadWord(rows.highs) : signs;
  WordVector fields = signs;
  if constexpr (kPlanes == 4) {
    const uint32_t even = LoadWord(rows.fields);
    const uint32_t odd = LoadWord(rows.fields + 4);
    fields = WordVector{even, odd, even, odd};
  }
  ExpandColumns<kPlanes, 2>([&](int idx) { return signs >> (kShifts + 4 * idx); },
                            [&](int idx) { return highs >> (kShifts + 4 * idx); },
                            [&](int idx) { return fields >> (kFieldShifts + 4 * idx); }, column, sink);
}

// Expands one plane to its windows.
void ExpandWindows(const uint8_t* signs, int32_t num_words, const ByteSink& sink) {
  int32_t word = 0;
  for (; word + 4 <= num_words; word += 4) {
    const WordVector group = LoadWords(signs + word * 4);
#pragma GCC unroll 8
    for (int bit = 0; bit < 8; ++bit) {
      sink.Put(word * kCodeWordColumns + bit * 16, reinterpret_cast<ByteVector>(group << (7 - bit)));
    }
  }
  for (; word < num_words; ++word) {
    constexpr WordVector kShifts = {7, 6, 5, 4};
    const WordVector tail = WordVector{} + LoadWord(signs + word * 4);
    sink.Put(word * kCodeWordColumns, reinterpret_cast<ByteVector>(tail << kShifts));
    sink.Put(word * kCodeWordColumns + 16, reinterpret_cast<ByteVector>(tail << (kShifts - 4)));
  }
}

template <int kPlanes, class Sink>
void ExpandLevels(const CodesView& codes, int64_t token, const Sink& sink) {
  const int32_t num_words = CodeWords(codes.shape.dim);
  const Rows rows = RowsOf<kPlanes>(codes, token);
  int32_t word = 0;
  for (; word + 4 <= num_words; word += 4) {
    ExpandGroup<kPlanes>(FromWord<kPlanes>(rows, word), word * kCodeWordColumns, sink);
  }
  for (; word < num_words; ++word) {
    ExpandTailWord<kPlanes>(FromWord<kPlanes>(rows, word), word * kCodeWordColumns, sink);
  }
}

template <class Sink>
void ExpandLevels(int planes, const CodesView& codes, int64_t token, const Sink& sink) {
  if (planes == 1) {
    ExpandLevels<1>(codes, token, sink);
  } else if (planes == 2) {
    ExpandLevels<2>(codes, token, sink);
  } else {
    ExpandLevels<4>(codes, token, sink);
  }
}

bool UsesWindows(StepForm form, int planes) {
  return planes == 1 && (form == StepForm::kI8Quads || form == StepForm::kUnsignedI8Quads);
}

// Converts `source` to the type `Column`, which has two or four bytes, and writes it to `steps`. Fills up with zeros.
template <typename Column, typename Source>
void WidenColumns(absl::Span<const Source> source, absl::Span<uint32_t> steps) {
  std::fill(steps.begin(), steps.end(), 0);
  auto* const target = reinterpret_cast<char*>(steps.data());
  for (size_t idx = 0; idx < source.size(); ++idx) {
    const auto value = static_cast<Column>(source[idx]);
    std::memcpy(target + idx * sizeof(value), &value, sizeof(value));
  }
}

}  // namespace

void ExpandCodes(StepForm form, int planes, const CodesView& codes, int64_t first_token, size_t count, size_t num_steps,
                 int8_t* columns, uint32_t* steps) {
  const int32_t num_words = CodeWords(codes.shape.dim);
  const auto num_columns = static_cast<size_t>(CodeColumns(codes.shape.dim));
  const bool windows = UsesWindows(form, planes);
  // Integer columns that fill all steps are expanded directly into `steps`. Otherwise rows are first expanded into
  // `columns`, which RowsToSteps converts.
  const bool direct = form != StepForm::kF32 && num_columns == num_steps * StepColumns(form);
  for (size_t row = 0; row < count; ++row) {
    const int64_t token = first_token + static_cast<int64_t>(row);
    char* const to = direct ? reinterpret_cast<char*>(steps + row * num_steps)
                            : reinterpret_cast<char*>(columns + row * num_columns);
    if (direct && form == StepForm::kI16Pairs) {
      ExpandLevels(planes, codes, token, PairSink{to});
    } else if (windows) {
      // Windows are unsigned, and levels are signed.
      const bool is_unsigned = direct && form == StepForm::kUnsignedI8Quads;
      const auto flip = static_cast<uint8_t>(is_unsigned ? 0 : 0x80);
      ExpandWindows(RowsOf<1>(codes, token).signs, num_words, ByteSink{to, flip});
    } else {
      const bool is_unsigned = direct && form == StepForm::kUnsignedI8Quads;
      const auto flip = static_cast<uint8_t>(is_unsigned ? 0x80 : 0);
      ExpandLevels(planes, codes, token, ByteSink{to, flip});
    }
  }
  if (!direct) RowsToSteps(form, ScalarType::kI8, columns, count, num_columns, num_steps, steps);
}

void CodeQuerySteps(StepForm form, const QueryCodes& query, int32_t token, absl::Span<uint32_t> steps) {
  const auto num_columns = static_cast<size_t>(CodeColumns(query.shape.dim));
  const size_t begin = static_cast<size_t>(token) * num_columns;
  const absl::Span<const int8_t> elements(query.elements.data() + begin, num_columns);
  if (query.planes != 1 || UsesWindows(form, query.planes)) {
    RowsToSteps(QueryForm(form), ScalarType::kI8, elements.data(), 1, num_columns, steps.size(), steps.data());
    return;
  }
  const absl::Span<const int16_t> weights(query.weights.data() + begin, num_columns);
  if (form == StepForm::kI16Pairs) {
    WidenColumns<int16_t>(weights, steps);
  } else {
    WidenColumns<float>(weights, steps);
  }
}

int32_t ProductScale(StepForm form, int planes) { return planes == 4 || UsesWindows(form, planes) ? 2 : 1; }

int32_t ProductOffset(StepForm form, const QueryCodes& query, int32_t token) {
  const bool is_unsigned = form == StepForm::kUnsignedI8Quads;
  const int32_t elements = query.element_sums[token];
  const int32_t weights = query.weight_sums[token];
  switch (query.planes) {
    case 1:
      if (!UsesWindows(form, 1)) return 0;
      // kUnsignedI8Quads has the windows themselves.
      return (is_unsigned ? 0 : 2 * 128 * elements) - weights;
    case 2:
      return is_unsigned ? -128 * elements : 0;
    default:
      return weights - (is_unsigned ? 2 * 128 * elements : 0);
  }
}

}  // namespace maxsim::cpu
