package devlink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"tapir/lab/tool/show"
)

// member is one of an object whose order is kept.
type member struct {
	key   string
	value any
}

// object is a JSON object with its members in order.
type object []member

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		v, err := json.Marshal(p.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", p.key, v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func printJSON(w io.Writer, v any, pretty bool) error {
	if pretty {
		return show.JSON(w, v)
	}
	b, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", b)
	}
	return err
}
