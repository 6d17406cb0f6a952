// The instruction sets of the CPU backend: what each one offers, and which of them this machine has.
//
// Every kernel works on "steps". A step is 32 bits of one token: one FP32 column, two of 16 bits or four of 8 bits that
// one instruction multiplies and adds. Query tokens are packed into panels (kernels/cpu/loops/pack.h) so that one
// vector holds the same step of as many query tokens as it has lanes; a step of a document token is broadcast to all
// lanes and multiplied with it. AMX instead multiplies tiles of sixteen steps of sixteen document tokens, and I8MM two
// steps of two document tokens. The similarity matrix exists only in registers, a tile at a time.
//
// Order of additions of floating-point similarities, for every shape and blocking: columns are added one step after the
// other inside a block (128 columns, or the 32 of one AMX instruction), starting from zero; the sums of the blocks are
// added in order. This order is the same for all calls with one instruction set, and differs between instruction sets.
// Integer similarities are exact, so every instruction set gives the same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxsim::cpu {

// How a step holds the columns of a token. In a query token's last step, columns beyond `dim` are zero, so the
// corresponding columns of documents may have any value.
enum class StepForm {
  kF32,              // one FP32 column per step, widened from the stored type (I8: the integers)
  kBf16Pairs,        // two BF16 columns per step, the first in the lower half
  kI16Pairs,         // two I8 columns, sign-extended to 16 bits
  kI8Quads,          // four I8 columns
  kUnsignedI8Quads,  // four I8 columns; 128 is added to document columns, which makes them unsigned, so that a
                     // similarity is too large by 128 times the sum of the query token's columns
};

// Rows of one document: [num_rows, num_steps] steps, packed, at any address. After them, the memory up to the next
// multiple of Feed::row_multiple rows is readable and repeats the last row; repeating a row does not change a maximum.
// With Feed::in_place this holds only for a block of fewer than row_multiple rows.
struct RowBlock {
  const void* rows = nullptr;
  size_t num_rows = 0;
  size_t num_steps = 0;

  // The memory that the next block will be made from. The kernel prefetches it while it multiplies.
  const char* next = nullptr;
  size_t next_bytes = 0;
};

// Query tokens packed by PackQueryToken for the same step form, in 64-byte aligned memory.
struct QueryPanels {
  const uint32_t* panels = nullptr;
  size_t num_vectors = 0;  // vectors of Isa::lanes query tokens
};

// The form in which a kernel takes rows and panels.
struct Feed {
  StepForm form = StepForm::kF32;
  size_t row_multiple = 1;   // every tile height divides it
  size_t step_multiple = 1;  // rows and panels have whole multiples of this many steps
  bool in_place = false;     // rows that are stored as steps are not copied, because a copy gains nothing
};

// The two loops over one step form. Similarity is float, or int32_t for integer columns.
template <typename Similarity>
struct Kernels {
  Feed feed;

  // Raises each maxima[lane] to the largest similarity of any row with that lane's query token. `maxima` has
  // num_vectors * lanes elements; `partial` is scratch of Isa::PartialSize elements.
  void (*update_maxima)(const RowBlock& block, const QueryPanels& queries, Similarity* partial,
                        Similarity* maxima) = nullptr;

  // Writes similarities[row, lane], the numbers that update_maxima takes the maximum of. `similarities` is [num_rows
  // rounded up to row_multiple, num_vectors * lanes].
  void (*similarities)(const RowBlock& block, const QueryPanels& queries, Similarity* similarities) = nullptr;

  // A thread calls `enter` before its first call of update_maxima or similarities, and `leave` after its last one. They
  // are null if the instruction set needs no preparation.
  void (*enter)() = nullptr;
  void (*leave)() = nullptr;
};

struct Isa {
  const char* name;
  size_t lanes;          // 32-bit elements of a vector
  size_t panel_vectors;  // vectors of a full panel
  Kernels<float> f32;
  Kernels<float> bf16;  // its functions are null if BF16 is widened to FP32 for this instruction set
  Kernels<int32_t> i8;

  // Returns the elements of scratch that update_maxima needs for blocks of up to `max_rows` rows (a multiple of
  // row_multiple).
  size_t PartialSize(size_t max_rows) const { return max_rows * panel_vectors * lanes; }
};

extern const Isa kPortableIsa;
#if defined(__x86_64__)
extern const Isa kAvx2Isa;
extern const Isa kAvx512Isa;
extern const Isa kAvx512VnniIsa;
extern const Isa kAvx512Bf16Isa;
extern const Isa kAmxIsa;
#elif defined(__aarch64__)
extern const Isa kNeonIsa;
extern const Isa kNeonDotIsa;
extern const Isa kNeonI8mmIsa;
#endif

// Returns the instruction sets that this machine can run, best first. The last one is always the portable one.
// Thread-safe.
const std::vector<const Isa*>& AvailableIsas();

}  // namespace maxsim::cpu
