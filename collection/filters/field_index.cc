#include "collection/filters/field_index.h"

#include <algorithm>
#include <utility>

namespace maxsim::collection {
namespace {

// A term gets a bitmap instead of a list of ordinals if at least kFrequentDocuments documents, and at least one
// document in kFrequentShare, have it. A bitmap takes at most about 2 bytes per document that has the term, and a list
// 4. Unions of bitmaps are also faster.
constexpr int64_t kFrequentDocuments = 256;
constexpr int64_t kFrequentShare = 256;

// Maximum number of masks (prefixes_) of a SortedValues. They take at most 2 bytes per document.
constexpr size_t kMaxPrefixes = 16;
constexpr size_t kMinPrefixStep = 1024;

template <typename T>
int64_t BytesOf(const std::vector<T>& values) {
  return static_cast<int64_t>(values.capacity() * sizeof(T));
}

size_t MaskWords(int64_t num_documents) { return (static_cast<size_t>(num_documents) + 63) / 64; }

void Flip(uint32_t ordinal, absl::Span<uint64_t> mask) { mask[ordinal / 64] ^= uint64_t{1} << (ordinal % 64); }

// Converts bits, whose order formats.md describes, into a mask.
std::vector<uint64_t> MaskOf(const uint8_t* bits, int64_t num_documents) {
  std::vector<uint64_t> mask(MaskWords(num_documents));
  for (int64_t byte = 0; byte < (num_documents + 7) / 8; ++byte) {
    mask[static_cast<size_t>(byte) / 8] |= uint64_t{bits[byte]} << (byte % 8 * 8);
  }
  return mask;
}

OrdinalBitmap PresentOf(const FieldColumn& column) {
  if (column.num_present == column.num_documents) return OrdinalBitmap::All(column.num_documents);
  if (column.present != nullptr) return OrdinalBitmap::FromMask(MaskOf(column.present, column.num_documents));
  std::vector<uint64_t> mask(MaskWords(column.num_documents));
  for (int64_t document = 0; document < column.num_documents; ++document) {
    mask[static_cast<size_t>(document) / 64] |= uint64_t{column.has_value(document)} << (document % 64);
  }
  return OrdinalBitmap::FromMask(mask);
}

// Calls take(document, term) for every term of every document, in the order of the documents.
template <typename Take>
void ForEachTerm(const FieldColumn& column, const Take& take) {
  for (int64_t document = 0; document < column.num_documents; ++document) {
    if (column.kind == FieldKind::kKeyword) {
      if (column.terms[document] != 0) take(static_cast<uint32_t>(document), size_t{column.terms[document]} - 1);
      continue;
    }
    for (int64_t idx = column.list_offsets[document]; idx < column.list_offsets[document + 1]; ++idx) {
      take(static_cast<uint32_t>(document), size_t{column.terms[idx]});
    }
  }
}

template <typename T, typename Array>
SortedValues<T> Sorted(const FieldColumn& column, const Array& array) {
  std::vector<std::pair<T, uint32_t>> values;
  values.reserve(static_cast<size_t>(column.num_present));
  for (int64_t document = 0; document < column.num_documents; ++document) {
    if (column.has_value(document)) values.emplace_back(array[document], static_cast<uint32_t>(document));
  }
  return SortedValues<T>(std::move(values), column.num_documents);
}

}  // namespace

template <typename T>
SortedValues<T>::SortedValues(std::vector<std::pair<T, uint32_t>> values, int64_t num_documents)
    : step_(std::max(kMinPrefixStep, static_cast<size_t>(num_documents) / kMaxPrefixes)),
      num_mask_words_(MaskWords(num_documents)) {
  std::sort(values.begin(), values.end());
  values_.reserve(values.size());
  ordinals_.reserve(values.size());
  for (const auto& [value, ordinal] : values) {
    values_.push_back(value);
    ordinals_.push_back(ordinal);
  }
  prefixes_.reserve(values.size() / step_ * num_mask_words_);
  std::vector<uint64_t> mask(num_mask_words_);
  for (size_t begin = 0; begin + step_ <= ordinals_.size(); begin += step_) {
    for (size_t place = begin; place < begin + step_; ++place) Flip(ordinals_[place], absl::MakeSpan(mask));
    prefixes_.insert(prefixes_.end(), mask.begin(), mask.end());
  }
}

template <typename T>
typename SortedValues<T>::Places SortedValues<T>::InRange(const std::optional<Bound>& low,
                                                          const std::optional<Bound>& high) const {
  auto begin = values_.begin();
  auto end = values_.end();
  if (low.has_value()) {
    begin = low->inclusive ? std::lower_bound(begin, end, low->value) : std::upper_bound(begin, end, low->value);
  }
  if (high.has_value()) {
    end = high->inclusive ? std::upper_bound(begin, end, high->value) : std::lower_bound(begin, end, high->value);
  }
  return {static_cast<size_t>(begin - values_.begin()), static_cast<size_t>(end - values_.begin())};
}

template <typename T>
absl::Span<const uint32_t> SortedValues<T>::Ordinals(Places places) const {
  return absl::MakeConstSpan(ordinals_).subspan(places.begin, places.size());
}

template <typename T>
void SortedValues<T>::AddTo(Places places, absl::Span<uint64_t> mask) const {
  if (places.size() < step_) {
    for (const uint32_t ordinal : Ordinals(places)) Flip(ordinal, mask);
    return;
  }
  FlipBefore(places.begin, mask);
  FlipBefore(places.end, mask);
}

template <typename T>
void SortedValues<T>::FlipBefore(size_t place, absl::Span<uint64_t> mask) const {
  const size_t num_prefixes = ordinals_.size() / step_;
  const size_t nearest = std::min((place + step_ / 2) / step_, num_prefixes);
  if (nearest > 0) {
    const uint64_t* const prefix = prefixes_.data() + (nearest - 1) * num_mask_words_;
    for (size_t word = 0; word < num_mask_words_; ++word) mask[word] ^= prefix[word];
  }
  const auto [begin, end] = std::minmax({place, nearest * step_});
  for (const uint32_t ordinal : Ordinals({begin, end})) Flip(ordinal, mask);
}

template <typename T>
int64_t SortedValues<T>::memory_bytes() const {
  return BytesOf(values_) + BytesOf(ordinals_) + BytesOf(prefixes_);
}

template class SortedValues<int64_t>;
template class SortedValues<double>;

TermLists::TermLists(const FieldColumn& column) : term_bytes_(column.term_bytes) {
  const auto num_terms = static_cast<size_t>(column.num_terms);
  term_offsets_.assign(column.term_offsets.data(), column.term_offsets.data() + num_terms + 1);
  std::vector<int64_t> counts(num_terms);
  ForEachTerm(column, [&](uint32_t /*document*/, size_t term) { ++counts[term]; });
  const auto is_frequent = [&](size_t term) {
    return counts[term] >= kFrequentDocuments && counts[term] >= column.num_documents / kFrequentShare;
  };
  list_offsets_.reserve(num_terms + 1);
  list_offsets_.push_back(0);
  std::vector<int64_t> all_offsets = {0};  // of the lists of all terms
  for (size_t term = 0; term < num_terms; ++term) {
    all_offsets.push_back(all_offsets.back() + counts[term]);
    list_offsets_.push_back(list_offsets_.back() + (is_frequent(term) ? 0 : counts[term]));
  }
  std::vector<uint32_t> all(static_cast<size_t>(all_offsets.back()));
  std::vector<int64_t> next = all_offsets;
  ForEachTerm(column, [&](uint32_t document, size_t term) { all[static_cast<size_t>(next[term]++)] = document; });
  lists_.reserve(static_cast<size_t>(list_offsets_.back()));
  for (size_t term = 0; term < num_terms; ++term) {
    const absl::Span<const uint32_t> list =
        absl::MakeConstSpan(all).subspan(static_cast<size_t>(all_offsets[term]), static_cast<size_t>(counts[term]));
    if (!is_frequent(term)) {
      lists_.insert(lists_.end(), list.begin(), list.end());
      continue;
    }
    frequent_terms_.push_back(static_cast<uint32_t>(term));
    bitmaps_.push_back(OrdinalBitmap::FromSorted(list));
    bitmaps_.back().Compress();
  }
  frequent_terms_.shrink_to_fit();
  bitmaps_.shrink_to_fit();
  term_bytes_.shrink_to_fit();
}

std::string_view TermLists::term(size_t idx) const {
  const auto begin = static_cast<size_t>(term_offsets_[idx]);
  return std::string_view(term_bytes_).substr(begin, static_cast<size_t>(term_offsets_[idx + 1]) - begin);
}

const OrdinalBitmap* TermLists::BitmapOf(size_t idx) const {
  const auto frequent = std::lower_bound(frequent_terms_.begin(), frequent_terms_.end(), idx);
  if (frequent == frequent_terms_.end() || *frequent != idx) return nullptr;
  return &bitmaps_[static_cast<size_t>(frequent - frequent_terms_.begin())];
}

uint64_t TermLists::CountIn(size_t idx, absl::Span<const uint64_t> mask, uint32_t first) const {
  uint64_t count = 0;
  const auto add = [&](absl::Span<const uint32_t> ordinals) {
    for (const uint32_t ordinal : ordinals) {
      const size_t bit = size_t{first} + ordinal;
      count += mask[bit / 64] >> (bit % 64) & 1;
    }
  };
  if (const OrdinalBitmap* const bitmap = BitmapOf(idx); bitmap != nullptr) {
    bitmap->ForEachBlock(add);
  } else {
    const auto begin = static_cast<size_t>(list_offsets_[idx]);
    add(absl::MakeConstSpan(lists_).subspan(begin, static_cast<size_t>(list_offsets_[idx + 1]) - begin));
  }
  return count;
}

std::optional<size_t> TermLists::Find(std::string_view term) const {
  size_t begin = 0;
  size_t end = size();
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    if (this->term(middle) < term) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  if (begin == size() || this->term(begin) != term) return std::nullopt;
  return begin;
}

void TermLists::AddTo(absl::Span<const std::string_view> terms, OrdinalBitmap& set) const {
  std::vector<uint32_t> rare;
  for (const std::string_view term : terms) {
    const std::optional<size_t> idx = Find(term);
    if (!idx.has_value()) continue;
    if (const OrdinalBitmap* const bitmap = BitmapOf(*idx); bitmap != nullptr) {
      set.UniteWith(*bitmap);
    } else {
      rare.insert(rare.end(), lists_.begin() + list_offsets_[*idx], lists_.begin() + list_offsets_[*idx + 1]);
    }
  }
  std::sort(rare.begin(), rare.end());
  set.UniteWith(OrdinalBitmap::FromSorted(rare));
}

int64_t TermLists::memory_bytes() const {
  int64_t bytes = BytesOf(term_offsets_) + BytesOf(list_offsets_) + BytesOf(lists_) + BytesOf(frequent_terms_) +
                  BytesOf(bitmaps_) + static_cast<int64_t>(term_bytes_.capacity());
  for (const OrdinalBitmap& bitmap : bitmaps_) bytes += bitmap.memory_bytes();
  return bytes;
}

FieldIndex::FieldIndex(const FieldColumn& column) : kind_(column.kind), present_(PresentOf(column)) {
  present_.Compress();
  switch (kind_) {
    case FieldKind::kKeyword:
    case FieldKind::kKeywords:
      terms_ = TermLists(column);
      break;
    case FieldKind::kInteger:
    case FieldKind::kTime:
      integers_ = Sorted<int64_t>(column, column.integers);
      break;
    case FieldKind::kNumber:
      numbers_ = Sorted<double>(column, column.numbers);
      break;
    case FieldKind::kBoolean:
      is_true_ = OrdinalBitmap::FromMask(MaskOf(column.bits, column.num_documents));
      is_true_.Compress();
      break;
  }
}

int64_t FieldIndex::memory_bytes() const {
  return static_cast<int64_t>(sizeof(*this)) + present_.memory_bytes() + is_true_.memory_bytes() +
         terms_.memory_bytes() + integers_.memory_bytes() + numbers_.memory_bytes();
}

ShardIndex::ShardIndex(const std::vector<Field>& fields, const std::vector<FieldColumn>& columns, int64_t num_documents)
    : fields_(fields), num_documents_(num_documents) {
  indexes_.reserve(columns.size());
  for (const FieldColumn& column : columns) indexes_.emplace_back(column);
}

const FieldIndex* ShardIndex::Find(std::string_view name) const {
  const Field* const field = FindField(fields_, name);
  return field == nullptr ? nullptr : &indexes_[static_cast<size_t>(field - fields_.data())];
}

int64_t ShardIndex::memory_bytes() const {
  int64_t bytes = sizeof(*this);
  for (const FieldIndex& index : indexes_) bytes += index.memory_bytes();
  return bytes;
}

int64_t MaxIndexBytes(const std::vector<FieldValue>& values) {
  constexpr int64_t kInBitmap = 2;             // Roaring bitmaps take at most 16 bits for each ordinal
  constexpr int64_t kSortedValue = 8 + 4 + 2;  // a value, an ordinal, and a share of the prefixes
  constexpr int64_t kTerm = 8 + 8 + 4;         // two offsets and an ordinal
  int64_t bytes = 0;
  for (const FieldValue& value : values) {
    if (std::holds_alternative<std::monostate>(value)) continue;
    bytes += kInBitmap;  // FieldIndex::present
    if (const auto* const term = std::get_if<std::string>(&value)) {
      bytes += kTerm + static_cast<int64_t>(term->size());
    } else if (const auto* const terms = std::get_if<std::vector<std::string>>(&value)) {
      for (const std::string& one : *terms) bytes += kTerm + static_cast<int64_t>(one.size());
    } else {
      bytes += std::holds_alternative<bool>(value) ? kInBitmap : kSortedValue;
    }
  }
  return bytes;
}

int64_t MaxIndexBytes(const std::vector<Field>& fields, int64_t num_documents, int64_t file_bytes) {
  // Without present_ and is_true_, an index takes at most twice the bytes of the arrays and terms in the file. Terms
  // get a second array of offsets. A value of 8 bytes gets 4 more for its ordinal and 2 for prefixes_. Bitmaps of
  // frequent terms take less than the terms' indices in the file. present_ and is_true_ each take at most 2 bytes per
  // document, and at most 8 KiB per 65,536 documents.
  constexpr int64_t kContainerDocuments = 65'536;
  constexpr int64_t kMaxContainerBytes = 8192;
  constexpr int64_t kContainerOverhead = 64;
  const int64_t num_containers = (num_documents + kContainerDocuments - 1) / kContainerDocuments;
  const int64_t bitmap_bytes =
      num_containers * kContainerOverhead + std::min(2 * num_documents, num_containers * kMaxContainerBytes);
  const auto num_fields = static_cast<int64_t>(fields.size());
  return 2 * file_bytes + kMaxIndexBytesPerField + num_fields * (kMaxIndexBytesPerField + 2 * bitmap_bytes);
}

}  // namespace maxsim::collection
