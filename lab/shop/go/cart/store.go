package cart

import (
	"errors"
	"net"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"google.golang.org/protobuf/proto"

	"shop.example/gen"
)

const (
	// expiry is how long an untouched cart is kept.
	expiry = 48 * time.Hour
	// idleConnections to memcached are kept open between requests.
	idleConnections = 64
	// cacheTimeout bounds one exchange with memcached.
	cacheTimeout = 500 * time.Millisecond
	// attempts to change a cart that others are changing at the same time.
	attempts = 16
)

var errBusy = errors.New("cart is being changed by others")

// store keeps one item per user in memcached: key "cart:" and the user, value
// a CartContents message. Nothing is kept in this process.
type store struct {
	cache *memcache.Client
}

func newStore(address string) *store {
	cache := memcache.New(address)
	cache.MaxIdleConns = idleConnections
	cache.Timeout = cacheTimeout
	return &store{cache: cache}
}

func key(user string) string { return "cart:" + user }

// get returns the cart of user, empty if there is none.
func (s *store) get(user string) (*gen.CartContents, error) {
	contents, _, err := s.read(user)
	return contents, err
}

// change replaces the cart of user by what edit makes of it. Changes made at
// the same time are all kept: a lost race is tried again on the newer cart.
func (s *store) change(user string, edit func(*gen.CartContents) error) (*gen.CartContents, error) {
	for range attempts {
		contents, item, err := s.read(user)
		if err != nil {
			return nil, err
		}
		if err := edit(contents); err != nil {
			return nil, err
		}
		value, err := proto.Marshal(contents)
		if err != nil {
			return nil, err
		}
		if item == nil {
			err = s.cache.Add(&memcache.Item{Key: key(user), Value: value, Expiration: int32(expiry.Seconds())})
		} else {
			item.Value, item.Expiration = value, int32(expiry.Seconds())
			err = s.cache.CompareAndSwap(item)
		}
		if err == nil {
			return contents, nil
		}
		if !errors.Is(err, memcache.ErrNotStored) && !errors.Is(err, memcache.ErrCASConflict) {
			return nil, err
		}
	}
	return nil, errBusy
}

// empty forgets the cart of user.
func (s *store) empty(user string) error {
	err := s.again(func() error { return s.cache.Delete(key(user)) })
	if errors.Is(err, memcache.ErrCacheMiss) {
		return nil
	}
	return err
}

// read also returns the cache item to compare with, nil if there is none. A
// value that is not a cart counts as an empty one.
func (s *store) read(user string) (*gen.CartContents, *memcache.Item, error) {
	var item *memcache.Item
	err := s.again(func() (err error) {
		item, err = s.cache.Get(key(user))
		return err
	})
	contents := &gen.CartContents{}
	if errors.Is(err, memcache.ErrCacheMiss) {
		return contents, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if proto.Unmarshal(item.Value, contents) != nil {
		contents.Reset()
	}
	return contents, item, nil
}

// again runs an exchange that may safely be repeated a second time if the
// connection turned out to be broken. All idle connections are dropped before:
// after a restart of memcached every one of them is stale.
func (s *store) again(exchange func() error) error {
	err := exchange()
	if !broken(err) {
		return err
	}
	s.cache.Close()
	return exchange()
}

func broken(err error) bool {
	switch {
	case err == nil,
		errors.Is(err, memcache.ErrCacheMiss),
		errors.Is(err, memcache.ErrMalformedKey):
		return false
	}
	var timeout net.Error
	var connect *memcache.ConnectTimeoutError
	return !errors.As(err, &connect) && !(errors.As(err, &timeout) && timeout.Timeout())
}
