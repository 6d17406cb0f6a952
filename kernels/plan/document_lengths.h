// Statistics of documents' lengths that the choice of kernels depends on, updated while documents are appended.
#pragma once

#include <array>
#include <cstdint>

namespace maxsim {

// Cheap to copy: an object has a few hundred bytes, however many documents were added.
class DocumentLengths {
 public:
  // Adds documents. `offsets` [num_documents + 1] is that of DocumentsView.
  void Add(const int64_t* offsets, int64_t num_documents);

  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return num_tokens_; }
  // Returns the tokens of every document if all have equally many; else 0.
  int64_t document_tokens() const { return shortest_ == longest_ ? longest_ : 0; }
  int64_t longest_tokens() const { return longest_; }
  // Returns an estimate of SpreadTokens (kernels/plan/shares.h), which may be off by a tenth: SpreadTokens caps the
  // length of each long document, but this function caps the mean length of all documents in the same Octave.
  int64_t spread_tokens() const;

 private:
  // Documents of 2^n .. 2^(n + 1) - 1 tokens.
  struct Octave {
    double documents = 0;
    double tokens = 0;
    double squares = 0;  // sum of the documents' squared lengths
  };
  static constexpr int kOctaves = 17;  // kMaxDocumentTokens is 2^16

  int64_t num_documents_ = 0;
  int64_t num_tokens_ = 0;
  int64_t shortest_ = 0;
  int64_t longest_ = 0;
  std::array<Octave, kOctaves> octaves_;
};

}  // namespace maxsim
