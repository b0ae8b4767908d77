//! The first elements of a row in the order in which torch's CPU kernel leaves them.
//!
//! torch selects with `partial_sort`, `nth_element` and `sort` of the C++ standard library, which say
//! nothing of equal elements. Their order decides which indices `topk` gives, so here are the same
//! steps: heaps, quickselect with a median of three, and insertion sort for short ranges.

/// A longer range is partitioned, a shorter one is sorted by insertion.
const SHORT: usize = 16;

/// Elements beside the order: `before(a, b)` says whether `a` has to come before `b`.
pub(super) struct Order<'a, T, F> {
    items: &'a mut [T],
    before: F,
}

impl<'a, T: Copy, F: Fn(&T, &T) -> bool> Order<'a, T, F> {
    pub fn new(items: &'a mut [T], before: F) -> Self {
        Self { items, before }
    }

    fn less(&self, a: usize, b: usize) -> bool {
        (self.before)(&self.items[a], &self.items[b])
    }

    /// The first `count` elements of the order, in order.
    pub fn partial_sort(&mut self, count: usize) {
        self.heap_select(0, count, self.items.len());
        self.sort_heap(0, count);
    }

    /// The element of this place in the order at its place, those before it in front of it.
    pub fn select(&mut self, place: usize) {
        let (mut first, mut last) = (0, self.items.len());
        if place >= last {
            return;
        }
        let mut depth = 2 * last.ilog2();
        while last - first > 3 {
            if depth == 0 {
                self.heap_select(first, place + 1, last);
                return self.items.swap(first, place);
            }
            depth -= 1;
            let cut = self.partition(first, last);
            if cut <= place {
                first = cut;
            } else {
                last = cut;
            }
        }
        self.insert_each(first, last);
    }

    /// The first `count` elements in order; those behind them stay.
    pub fn sort(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.partition_all(0, count, 2 * count.ilog2());
        self.insert_each(0, count.min(SHORT));
        for item in SHORT..count {
            self.insert(item);
        }
    }

    fn partition_all(&mut self, first: usize, mut last: usize, mut depth: u32) {
        while last - first > SHORT {
            if depth == 0 {
                self.heap_select(first, last, last);
                return self.sort_heap(first, last);
            }
            depth -= 1;
            let cut = self.partition(first, last);
            self.partition_all(cut, last, depth);
            last = cut;
        }
    }

    /// Splits a range by the median of three of its elements, and gives the place of the cut.
    fn partition(&mut self, first: usize, last: usize) -> usize {
        let (a, b, c) = (first + 1, first + (last - first) / 2, last - 1);
        let median = match (self.less(a, b), self.less(b, c), self.less(a, c)) {
            (true, true, _) | (false, false, false) => b,
            (true, false, true) | (false, true, false) => c,
            (true, false, false) | (false, _, true) => a,
        };
        self.items.swap(first, median);
        let (mut left, mut right) = (first + 1, last);
        loop {
            while self.less(left, first) {
                left += 1;
            }
            right -= 1;
            while self.less(first, right) {
                right -= 1;
            }
            if left >= right {
                return left;
            }
            self.items.swap(left, right);
            left += 1;
        }
    }

    fn insert_each(&mut self, first: usize, last: usize) {
        for item in first + 1..last {
            if self.less(item, first) {
                self.items[first..=item].rotate_right(1);
            } else {
                self.insert(item);
            }
        }
    }

    /// Moves an element in front of those that it has to come before; one of them does not.
    fn insert(&mut self, item: usize) {
        let mut place = item;
        while (self.before)(&self.items[item], &self.items[place - 1]) {
            place -= 1;
        }
        self.items[place..=item].rotate_right(1);
    }

    /// A heap of the first elements of the order at the front of a range.
    fn heap_select(&mut self, first: usize, middle: usize, last: usize) {
        let len = middle - first;
        for parent in (0..len / 2).rev() {
            self.sink(first, parent, len, self.items[first + parent]);
        }
        for item in middle..last {
            if self.less(item, first) {
                self.pop(first, middle, item);
            }
        }
    }

    fn sort_heap(&mut self, first: usize, last: usize) {
        for end in (first + 1..last).rev() {
            self.pop(first, end, end);
        }
    }

    /// Moves the heap's top to `item`, and what was there into the heap.
    fn pop(&mut self, first: usize, last: usize, item: usize) {
        let value = self.items[item];
        self.items[item] = self.items[first];
        self.sink(first, 0, last - first, value);
    }

    fn sink(&mut self, first: usize, top: usize, len: usize, value: T) {
        let mut hole = top;
        let mut child = top;
        while child < (len - 1) / 2 {
            child = 2 * (child + 1);
            if self.less(first + child, first + child - 1) {
                child -= 1;
            }
            self.items[first + hole] = self.items[first + child];
            hole = child;
        }
        if len.is_multiple_of(2) && child == (len - 2) / 2 {
            child = 2 * child + 1;
            self.items[first + hole] = self.items[first + child];
            hole = child;
        }
        while hole > top {
            let parent = (hole - 1) / 2;
            if !(self.before)(&self.items[first + parent], &value) {
                break;
            }
            self.items[first + hole] = self.items[first + parent];
            hole = parent;
        }
        self.items[first + hole] = value;
    }
}
