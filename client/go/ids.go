package maxsim

import (
	"strconv"

	"example.org/maxsim/client/go/maxsimv1"
)

// ID is the id of a document: a string of 1 to 512 bytes or an integer, as the collection has it
// (CollectionInfo.IdType). IDs can be compared with == and can be keys of a map. The zero ID stands for none: inline
// documents have the zero ID.
type ID struct {
	kind   idKind
	text   string
	number int64
}

type idKind uint8

const (
	noID idKind = iota
	stringID
	intID
)

// StringID returns the id of a document in a collection with strings as ids.
func StringID(id string) ID { return ID{kind: stringID, text: id} }

// IntID returns the id of a document in a collection with integers as ids.
func IntID(id int64) ID { return ID{kind: intID, number: id} }

// StringIDs returns a list of ids.
func StringIDs(ids ...string) []ID {
	result := make([]ID, len(ids))
	for i, id := range ids {
		result[i] = StringID(id)
	}
	return result
}

// IntIDs returns a list of ids.
func IntIDs(ids ...int64) []ID {
	result := make([]ID, len(ids))
	for i, id := range ids {
		result[i] = IntID(id)
	}
	return result
}

// String returns the id as text; an integer in decimal.
func (id ID) String() string {
	if id.kind == intID {
		return strconv.FormatInt(id.number, 10)
	}
	return id.text
}

// Int returns the integer, and whether the id is one.
func (id ID) Int() (int64, bool) { return id.number, id.kind == intID }

// IsZero says whether this is the zero ID.
func (id ID) IsZero() bool { return id.kind == noID }

// splitIDs returns the ids as one of the two messages; the other one is nil. An empty list becomes an empty StringIds,
// which the server refuses with an error that names the field.
func splitIDs(ids []ID) (*maxsimv1.StringIds, *maxsimv1.IntIds, error) {
	if len(ids) == 0 {
		return &maxsimv1.StringIds{}, nil, nil
	}
	strings, integers := make([]string, 0, len(ids)), []int64{}
	for i, id := range ids {
		if id.kind != ids[0].kind || id.kind == noID {
			return nil, nil, invalid("ids", "[%d] is %s; must be all strings or all integers", i, id.shown())
		}
		if id.kind == intID {
			integers = append(integers, id.number)
		} else {
			strings = append(strings, id.text)
		}
	}
	if ids[0].kind == intID {
		return nil, &maxsimv1.IntIds{Ids: integers}, nil
	}
	return &maxsimv1.StringIds{Ids: strings}, nil, nil
}

func (id ID) shown() string {
	switch id.kind {
	case stringID:
		return "the string " + strconv.Quote(id.text)
	case intID:
		return "the integer " + id.String()
	}
	return "the zero ID"
}

// joinIDs returns the ids of an answer, which has one of the two lists or none.
func joinIDs(strings *maxsimv1.StringIds, integers *maxsimv1.IntIds) []ID {
	if integers != nil {
		return IntIDs(integers.Ids...)
	}
	return StringIDs(strings.GetIds()...)
}
