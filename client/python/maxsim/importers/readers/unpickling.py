"""Reads pickles of unknown origin without running code from them.

A pickle is a program: it may import any function and call it. This reader is not a subclass of pickle.Unpickler but a
separate interpreter, which knows only the opcodes that build values. It never imports a global: it represents the
name as a Global. If the pickle calls it, the reader looks for a function of this name in a table. The table's
functions make numbers, strings, containers, NumPy arrays and (torch_files.py) tensors; every other name is refused.
The reader accesses no attributes of objects, so that their methods do not run either. It allocates no memory for a
size that the pickle states before it has the bytes."""

from __future__ import annotations

import struct
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from maxsim.importers.readers.pickled_values import MAKERS, Array, Dtype, Global, Maker, Object, array_of, checked_key, finished
from maxsim.importers.source import SourceError

# The longest integer that is read, in bytes or digits. A longer one takes quadratic time to print, and is no id or
# size.
_MAX_INTEGER_BYTES = 256
# The deepest nesting of containers. Deeper ones would overflow the stack of recursive code.
_MAX_MARKS = 1000
# The opcode that is followed by the 8 bytes of a number, and how many consecutive numbers are read in one step.
_FLOAT = 0x47
_FLOAT_BYTES = 9
_MAX_RUN = 4096


class _Mark:
    """Marks the place on the stack where the items of a container begin."""


Buffer = Union[bytes, memoryview]
# Says whether objects of a class are read, as Object.
IsModel = Callable[[Global], bool]
# Makes a value from a persistent id.
PersistentLoad = Callable[[object], object]


_MARK = _Mark()
_CUT = "is cut off"


class Unpickler:
    """Reads the pickle that begins at `position` of `data`. After load(), `position` is the byte after the pickle.

    makers: functions for more names, which take precedence over those of this module. Values are None, bool, int,
    float, str, bytes, list, tuple, dict, set, frozenset, NumPy arrays, and the results of makers and persistent_load.
    A name that is not called becomes a Global. is_model: says of which classes the pickle may have objects, whose
    fields are kept (Object). load() raises SourceError, whose text does not name the file."""

    def __init__(
        self,
        data: Buffer,
        position: int = 0,
        makers: Optional[Mapping[Tuple[str, str], Maker]] = None,
        persistent_load: Optional[PersistentLoad] = None,
        is_model: Optional[IsModel] = None,
    ) -> None:
        self._data = memoryview(data)
        self.position = position
        self._makers = makers or {}
        self._persistent_load = persistent_load
        self._is_model = is_model
        self._stack: List[object] = []
        self._num_marks = 0
        self._num_copied = 0
        self._memo: Dict[int, object] = {}

    def load(self) -> object:
        try:
            return self._run()
        except (IndexError, struct.error):
            raise SourceError(f"is not a pickle, or {_CUT}, at byte {self.position}") from None
        except (TypeError, ValueError, OverflowError, UnicodeError, RecursionError, MemoryError) as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError(f"is a pickle that cannot be read at byte {self.position}: {error}") from None

    def _run(self) -> object:
        while True:
            opcode = self._data[self.position]
            self.position += 1
            if opcode == 0x2E:  # STOP
                return finished(self._stack.pop())
            operation = _OPERATIONS.get(opcode)
            if operation is None or (opcode in _OBJECT_OPCODES and self._is_model is None):
                raise self._unread(opcode)
            operation(self)

    def _unread(self, opcode: int) -> SourceError:
        """Returns the error for an opcode that is not supported. If the opcode makes an object, the error names its
        class."""
        if opcode not in _OBJECT_OPCODES or self.position == 1:
            return SourceError(
                f"is not a pickle, or has an opcode that cannot be read: 0x{opcode:02x} at byte {self.position - 1}"
            )
        name = next((str(value)[:100] for value in reversed(self._stack) if isinstance(value, Global)), "an object")
        return SourceError(
            "is a pickle of objects (for instance a saved model), of which only tensors, arrays, numbers, strings and "
            f"containers are read: {name} at byte {self.position - 1}"
        )

    # Reading the bytes of an opcode's argument.

    def _take(self, count: int) -> memoryview:
        taken = self._data[self.position : self.position + count]
        if len(taken) != count:
            raise SourceError(f"{_CUT} at byte {self.position}, where {count} more are needed")
        self.position += count
        return taken

    def _unsigned(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _line(self) -> str:
        end = self.position
        limit = min(len(self._data), end + 1_000_000)
        while end < limit and self._data[end] != 0x0A:
            end += 1
        if end == limit:
            raise SourceError(f"{_CUT} at byte {self.position}, in a line")
        text = bytes(self._data[self.position : end]).decode("latin-1")
        self.position = end + 1
        return text

    def _integer_of(self, digits: str) -> int:
        if len(digits) > _MAX_INTEGER_BYTES:
            raise SourceError(f"has an integer of {len(digits)} digits")
        return int(digits)

    # The operations of the opcodes.

    def push(self, value: object) -> None:
        self._stack.append(value)

    def mark(self) -> None:
        self._num_marks += 1
        if self._num_marks > _MAX_MARKS:
            raise SourceError(f"has containers more than {_MAX_MARKS} deep")
        self._stack.append(_MARK)

    def pop_mark(self) -> List[object]:
        """Pops everything down to the topmost mark, and the mark. Returns what was above the mark."""
        index = len(self._stack) - 1
        while self._stack[index] is not _MARK:
            index -= 1
            if index < 0:
                raise SourceError("ends a container that does not begin")
        items = [finished(item) for item in self._stack[index + 1 :]]
        del self._stack[index:]
        self._num_marks -= 1
        return items

    def pop(self) -> object:
        value = self._stack.pop()
        if value is _MARK:
            raise SourceError("takes a value where there is none")
        return finished(value)

    def drop(self) -> None:
        if self._stack[-1] is _MARK:
            self.drop_mark()
        else:
            self.pop()

    def drop_mark(self) -> None:
        self.pop_mark()

    def tuple_of(self, count: int) -> None:
        items = [self.pop() for _ in range(count)]
        self.push(tuple(reversed(items)))

    def integer(self) -> None:
        text = self._line()
        self.push({"00": False, "01": True}[text] if text in ("00", "01") else self._integer_of(text))

    def long(self, width: int) -> None:
        size = self._unsigned(width)
        if size > _MAX_INTEGER_BYTES:
            raise SourceError(f"has an integer of {size} bytes")
        self.push(int.from_bytes(self._take(size), "little", signed=True))

    def text(self, width: int) -> None:
        self.push(bytes(self._take(self._unsigned(width))).decode("utf-8", "surrogatepass"))

    def binary(self, width: int) -> None:
        self.push(bytes(self._take(self._unsigned(width))))

    def old_text(self, width: int) -> None:
        self.push(bytes(self._take(self._unsigned(width))).decode("utf-8"))

    def quoted(self) -> None:
        text = self._line()
        if len(text) < 2 or text[0] not in "'\"" or text[-1] != text[0] or "\\" in text:
            raise SourceError("has a quoted string that cannot be read")
        self.push(text[1:-1])

    def append(self, items: Sequence[object]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise SourceError("appends to a value that is not a list")
        target.extend(items)

    def set_items(self, items: Sequence[object]) -> None:
        target = self._stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise SourceError("sets items of a value that is not a dictionary")
        for index in range(0, len(items), 2):
            target[checked_key(items[index])] = items[index + 1]

    def add_items(self) -> None:
        items = self.pop_mark()
        target = self._stack[-1]
        if type(target) is not set:
            raise SourceError("adds to a value that is not a set")
        target.update(checked_key(item) for item in items)

    def dictionary(self) -> None:
        items = self.pop_mark()
        self.push({})
        self.set_items(items)

    def remember(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def recall(self, index: int) -> None:
        if index not in self._memo:
            raise SourceError(f"names a value {index} that is not there")
        self.push(self._memo[index])

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(module, str) or not isinstance(name, str):
            raise SourceError("names a function by a value that is not text")
        self.push(Global(module, name))

    def call(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(arguments, tuple) or not isinstance(function, Global):
            raise SourceError("calls a value that is not a function")
        self.push(self.make(function, arguments))

    def make(self, function: Global, arguments: Tuple[object, ...]) -> object:
        """Returns the result of the function that stands in for `function`, by its name."""
        maker = self._makers.get(function) or MAKERS.get(function)
        if maker is None:
            raise SourceError(
                f"is a pickle that calls {str(function)[:100]}, which is refused: it holds more than data"
            )
        self._charge(arguments)
        return maker(arguments)

    def new_object(self) -> None:
        arguments, model = self.pop(), self.pop()
        is_known = self._is_model is not None and isinstance(model, Global) and self._is_model(model)
        if arguments != () or not is_known:
            name = str(model)[:100] if isinstance(model, Global) else "something that is not a class"
            raise SourceError(f"is a pickle that makes an object of {name}, which is refused: it holds more than data")
        self.push(Object())

    def _charge(self, arguments: Tuple[object, ...]) -> None:
        """Counts the bytes that makers copy from their arguments. SourceError if they are many times the pickle's size:
        a pickle that names one value often would otherwise use much memory."""
        self._num_copied += sum(len(item) for item in arguments if isinstance(item, (str, bytes, list, tuple)))
        if self._num_copied > 16 * len(self._data) + 1_000_000:
            raise SourceError("is a pickle that would grow to many times its size")

    def build(self) -> None:
        state, target = self.pop(), self._stack[-1]
        if isinstance(target, Array) and isinstance(state, tuple) and len(state) == 5:
            self._charge(state)
            target.value = array_of(state[4], state[2], state[1], state[3])
        elif isinstance(target, Object) and isinstance(state, dict):
            fields = state.get("__dict__", state)
            target.fields = fields if isinstance(fields, dict) else {}
        elif (
            isinstance(target, Dtype)
            and isinstance(state, tuple)
            and len(state) >= 2
            and state[1] in ("<", ">", "|", "=")
        ):
            target.dtype = target.dtype.newbyteorder(state[1])
        elif type(target) is not dict or not isinstance(
            state, dict
        ):  # An OrderedDict may have attributes, which are ignored.
            raise SourceError("sets the state of an object, which is refused: it holds more than data")

    def persistent(self) -> None:
        if self._persistent_load is None:
            raise SourceError("refers to data outside of it")
        self.push(self._persistent_load(self.pop()))

    def floats(self) -> None:
        """Pushes a number and all numbers that directly follow. A vector is such a run, and is read in one call."""
        begin = self.position - 1
        run = np.frombuffer(self._data[begin : begin + _FLOAT_BYTES * _MAX_RUN], np.uint8)
        if len(run) < 3 * _FLOAT_BYTES or run[_FLOAT_BYTES] != _FLOAT or run[2 * _FLOAT_BYTES] != _FLOAT:
            self.number(">d")
            return
        run = run[: len(run) // _FLOAT_BYTES * _FLOAT_BYTES].reshape(-1, _FLOAT_BYTES)
        others = np.flatnonzero(run[:, 0] != _FLOAT)
        run = run[: int(others[0]) if len(others) else len(run)]
        self._stack.extend(np.ascontiguousarray(run[:, 1:]).view(">f8")[:, 0].tolist())
        self.position = begin + run.size

    def number(self, form: str) -> None:
        self.push(struct.unpack(form, self._take(struct.calcsize(form)))[0])


Operation = Callable[[Unpickler], None]


def _skip(count: int) -> Operation:
    def skip(unpickler: Unpickler) -> None:
        unpickler._take(count)

    return skip


# The opcodes that make an object of a class: INST, OBJ, NEWOBJ, EXT1, EXT2, EXT4, NEWOBJ_EX.
_OBJECT_OPCODES = frozenset((0x69, 0x6F, 0x81, 0x82, 0x83, 0x84, 0x92))

# Operations by opcode. The names are those of Python's pickletools.
_OPERATIONS: Dict[int, Operation] = {
    0x28: Unpickler.mark,
    0x29: lambda u: u.push(()),
    0x30: Unpickler.drop,
    0x31: Unpickler.drop_mark,
    0x32: lambda u: u.push(u._stack[-1]),  # DUP
    0x42: lambda u: u.binary(4),
    0x43: lambda u: u.binary(1),
    0x46: lambda u: u.push(float(u._line())),
    _FLOAT: Unpickler.floats,
    0x49: Unpickler.integer,
    0x4A: lambda u: u.number("<i"),
    0x4B: lambda u: u.push(u._unsigned(1)),
    0x4C: lambda u: u.push(u._integer_of(u._line().rstrip("L"))),
    0x4D: lambda u: u.push(u._unsigned(2)),
    0x4E: lambda u: u.push(None),
    0x51: Unpickler.persistent,
    0x52: Unpickler.call,
    0x53: Unpickler.quoted,
    0x54: lambda u: u.old_text(4),
    0x55: lambda u: u.old_text(1),
    0x56: lambda u: u.push(u._line().encode("latin-1").decode("raw-unicode-escape")),
    0x58: lambda u: u.text(4),
    0x5D: lambda u: u.push([]),
    0x61: lambda u: u.append([u.pop()]),
    0x62: Unpickler.build,
    0x63: lambda u: u.push(Global(u._line(), u._line())),
    0x64: Unpickler.dictionary,
    0x65: lambda u: u.append(u.pop_mark()),
    0x67: lambda u: u.recall(u._integer_of(u._line())),
    0x68: lambda u: u.recall(u._unsigned(1)),
    0x6A: lambda u: u.recall(u._unsigned(4)),
    0x6C: lambda u: u.push(u.pop_mark()),
    0x70: lambda u: u.remember(u._integer_of(u._line())),
    0x71: lambda u: u.remember(u._unsigned(1)),
    0x72: lambda u: u.remember(u._unsigned(4)),
    0x73: lambda u: u.set_items([u.pop(), u.pop()][::-1]),
    0x74: lambda u: u.push(tuple(u.pop_mark())),
    0x75: lambda u: u.set_items(u.pop_mark()),
    0x7D: lambda u: u.push({}),
    0x80: _skip(1),  # PROTO
    0x81: Unpickler.new_object,
    0x85: lambda u: u.tuple_of(1),
    0x86: lambda u: u.tuple_of(2),
    0x87: lambda u: u.tuple_of(3),
    0x88: lambda u: u.push(True),
    0x89: lambda u: u.push(False),
    0x8A: lambda u: u.long(1),
    0x8B: lambda u: u.long(4),
    0x8C: lambda u: u.text(1),
    0x8D: lambda u: u.text(8),
    0x8E: lambda u: u.binary(8),
    0x8F: lambda u: u.push(set()),
    0x90: Unpickler.add_items,
    0x91: lambda u: u.push(frozenset(checked_key(item) for item in u.pop_mark())),
    0x93: Unpickler.stack_global,
    0x94: lambda u: u.remember(len(u._memo)),
    0x95: _skip(8),  # FRAME
    0x96: lambda u: u.binary(8),
}
