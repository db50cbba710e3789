//! Collects the lines of a stack.

use std::io::BufRead;

use punctual_model::{EVENTS, KernelEvent};

use super::TextReader;
use crate::text::payload;
use crate::text::stack::{Frame, Stack};

impl<R: BufRead> TextReader<R> {
    pub(super) fn take_frame(&mut self, frame: &Frame<'_>) {
        // In perf's text, a stack follows its event without a heading.
        if let (Frame::Kernel(_), None, Some(header)) = (frame, &self.stack, self.last) {
            self.stack = Some(Stack {
                header,
                frames: Vec::new(),
            });
        }
        if let (Some(stack), Frame::Kernel(name) | Frame::Arrow(name)) = (&mut self.stack, frame) {
            stack.add(self.names.address(name, &mut self.head.symbols));
        }
    }

    /// Completes the stack that is being read, and discards an event that is still incomplete.
    pub(super) fn finish(&mut self) {
        self.last = None;
        if let Some(event) = self.incomplete.take() {
            self.warnings.unreadable.add(event.line, &event.text);
            self.lose(event.header.cpu, Some(1));
        }
        let Some(stack) = self.stack.take().filter(|stack| !stack.frames.is_empty()) else {
            return;
        };
        let is_stack = |event: KernelEvent| event == KernelEvent::KernelStack;
        let index = EVENTS.iter().position(|spec| is_stack(spec.event));
        if self.pending.states() {
            let symbols = &self.head.symbols;
            let named = stack.frames.iter().filter_map(|frame| symbols.get(frame));
            let named = named.map(|name| name.as_str().into()).collect();
            self.pending.stack(named);
        }
        let kind = payload::stack(stack.frames, &mut self.names);
        if let (Some(index), Some(kind)) = (index, kind) {
            self.accept(stack.header, Some(index), kind);
        }
        self.last = None;
    }
}
