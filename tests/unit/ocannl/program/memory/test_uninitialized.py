"""Memory that is read before anything has written it: the message names it, and the routine that reads."""

from __future__ import annotations

from support.messages import data, message_of, names_line

import ocannl as oc
from ocannl import train


class TestUninitialized:
    def test_a_parameter(self):
        def program():
            w = oc.param("w", output=2)  # here
            routine = oc.Context.cpu().compile(oc.forward(w @ data(4, 3)), name="my_routine")
            routine()

        message = message_of(oc.UninitializedError, program, "w", "my_routine", "init_params")
        names_line(message, program)

    def test_a_node(self):
        def program():
            n = oc.node("scratch", output=2)  # here
            oc.Context.cpu().compile(oc.forward(2 * n), name="my_routine")()

        names_line(message_of(oc.UninitializedError, program, "scratch", "my_routine"), program)

    def test_a_value(self):
        def program():
            y = data(4, 3) * 2  # here
            oc.Context.cpu().compile(oc.forward(y.value + 1), name="my_routine")()

        names_line(message_of(oc.UninitializedError, program, "value", "my_routine"), program)

    def test_a_gradient(self):
        def program():
            w = oc.param("w", 1.0, output=2, input=[])
            loss = w.einsum("... => 0")
            ctx = oc.Context.cpu()
            ctx.init_params(loss)
            ctx.compile(train.sgd_update(loss, learning_rate=0.1), name="my_routine")()

        message_of(oc.UninitializedError, program, "w", "gradient", "my_routine")

    def test_asking_a_context(self):
        w = oc.param("w", output=2, input=3)
        message_of(oc.UninitializedError, lambda: oc.Context.cpu()[w], "w")
        message_of(oc.UninitializedError, lambda: oc.Context.cpu()[w.grad], "w")
        message_of(oc.UninitializedError, lambda: oc.Context.cpu()[w + 1], "w")

    def test_an_expression_of_indices(self):
        y = data(4, 3)[oc.index("i", 4)] * 2
        message_of(oc.UninitializedError, lambda: oc.Context.cpu()[y], "ind")
