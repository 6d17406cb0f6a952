// Reads token vectors from a source and converts them to the rows that shards store.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collection/build/sources/sources.h"
#include "collection/catalog.h"
#include "collection/quantization_loss.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {

// How token values are stored.
struct TokenEncoding {
  ScalarType storage = ScalarType::kF16;
  uint64_t rotation_seed = 0;  // i8
  int num_threads = 1;         // i8: that quantise
  bool refuse_lossy = false;   // i8: fail on a document with a lossy token (QuantizationLoss)
};

// For one thread.
class RowReader {
 public:
  // `tokens` must be positioned at the catalog's first document. All arguments must outlive the reader.
  RowReader(const TokenEncoding& encoding, const Catalog& catalog, TokenSource& tokens);

  // Consecutive rows: [num_rows, dim] of the storage type. The first is row `first_row` of `document`. The block may
  // end within a document or continue with rows of the next documents.
  struct Block {
    int64_t document = 0;
    int64_t first_row = 0;
    int64_t num_rows = 0;
    const char* rows = nullptr;
  };

  // Returns the next rows, at least one, valid until the next call. Must not be called after the last row. If this
  // reader quantises values, a block has whole documents only. Returns INVALID_ARGUMENT, with row, column and document,
  // for a value that is not finite or does not fit the storage type. Other errors are the source's.
  absl::StatusOr<Block> Next();

  // Returns the scale of a document and adds the document's quantisation loss to loss(). Only for i8 storage. Call it
  // once per document, in order, after the block with the document's last row.
  absl::StatusOr<float> ScaleOf(int64_t document);

  // Returns the total loss of the documents that ScaleOf was called for.
  const QuantizationLoss& loss() const { return loss_; }

 private:
  bool quantizes() const { return encoding_.storage == ScalarType::kI8 && tokens_.type() != ElementType::kI8; }
  int64_t length(int64_t document) const { return catalog_.lengths[static_cast<size_t>(document)]; }
  absl::StatusOr<Block> NextConverted();
  absl::StatusOr<Block> NextQuantized();
  absl::StatusOr<absl::Span<float>> NextAsFloats(int64_t num_rows);
  void CountStored(const char* rows, const Block& block);
  absl::Status CountLoss(int64_t document, float scale);
  absl::StatusOr<const char*> Convert(const void* source, int64_t num_rows);
  absl::Status CheckScale(int64_t document, float scale) const;
  absl::Status UnusableValue(const void* source, int64_t index) const;

  const TokenEncoding encoding_;
  const Catalog& catalog_;
  TokenSource& tokens_;
  int64_t document_ = 0;         // of the next row
  int64_t row_ = 0;              // its number in the document
  std::vector<float> narrowed_;  // a block of FP64 input, or one to be quantised, in FP32
  std::vector<char> converted_;  // a block as it is stored
  std::vector<float> scales_;    // of the documents that were quantised last
  int64_t first_scale_ = 0;      // the document of the first of these scales
  // Losses of the documents whose rows were returned, but for which ScaleOf was not called yet.
  std::deque<QuantizationLoss> losses_;
  int64_t first_loss_ = 0;
  QuantizationLoss loss_;
};

}  // namespace maxsim::collection
