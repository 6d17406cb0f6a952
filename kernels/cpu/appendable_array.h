// Host memory for arrays that grow in place.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace maxsim::cpu {

// An array in memory that is aligned to a cache line and not initialised, so that the system allocates each page at its
// first write.
template <typename T>
class AppendableArray {
 public:
  // Allocates `count` elements. data() is null if there is too little memory, or if `count` is 0. is_there() tells the
  // two apart.
  explicit AppendableArray(size_t count)
      : data_(count == 0 ? nullptr
                         : static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{64}, std::nothrow))),
        count_(count) {}

  T* data() const { return data_.get(); }
  bool is_there() const { return count_ == 0 || data_ != nullptr; }

 private:
  struct Free {
    void operator()(T* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  std::unique_ptr<T, Free> data_;
  size_t count_;
};

}  // namespace maxsim::cpu
