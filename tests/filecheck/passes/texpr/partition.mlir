// RUN: ocannl-opt %s --split-input-file --verify-diagnostics -p partition | filecheck %s

// Data parallel: the batch is divided, unevenly, so that sums leave out what is not real; gradients are summed.
// CHECK-LABEL: texpr.routine @data_parallel indices (data.rank = 4) mesh (data = 4)
// CHECK-NEXT:    %[[LEFT:.*]] = texpr.embed -3*data.rank + 10 : !texpr.tensor<i32>
// CHECK-NEXT:    %[[AT:.*]] = texpr.range : !texpr.tensor<3, i32>
// CHECK-NEXT:    %x = texpr.data "x" shard <"data" = batch> split 0 of 10 over "data" : !texpr.tensor<3 | 32, f32>
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<32 -> 16, f32>
// CHECK-NEXT:    %y = texpr.apply [b, o] add= mul(%w[o, k], %x[b, k]) over (b = 3, o = 16, k = 32) : !texpr.tensor<3 | 16, f32>
// CHECK-NEXT:    %[[PART:.*]] = texpr.apply [o, k] add= where(lt(%[[AT]][b], %[[LEFT]][]), mul(%y[b, o], %x[b, k]), 0.0) over (b = 3, o = 16, k = 32)
// CHECK-NEXT:    %[[SUM:.*]] = texpr.all_reduce %[[PART]] add over "data" : !texpr.tensor<32 -> 16, f32>
// CHECK-NEXT:    %[[GRAD:.*]] = texpr.grad %w : !texpr.tensor<32 -> 16, f32>
// CHECK-NEXT:    texpr.assign %[[GRAD]][o, k] add= %[[SUM]][o, k] over (o = 16, k = 32)
texpr.routine @data_parallel mesh (data = 4) {
  %x = texpr.data "x" shard <"data" = batch> : !texpr.tensor<10 | 32, f32>
  %w = texpr.param "w" : !texpr.tensor<32 -> 16, f32>
  %y = texpr.apply [b, o] add= mul(%w[o, k], %x[b, k]) over (b = 10, o = 16, k = 32) : !texpr.tensor<10 | 16, f32>
  %g = texpr.apply [o, k] add= mul(%y[b, o], %x[b, k]) over (b = 10, o = 16, k = 32) : !texpr.tensor<32 -> 16, f32>
  %w_grad = texpr.grad %w : !texpr.tensor<32 -> 16, f32>
  texpr.assign %w_grad[o, k] add= %g[o, k] over (o = 16, k = 32)
}

// -----

// Tensor parallel: of two layers, the second is divided as the first one is, and one sum is all that moves.
// CHECK-LABEL: texpr.routine @tensor_parallel
// CHECK:         %w1 = texpr.param "w1" shard <"model" = output> split 0 of 16 over "model" : !texpr.tensor<4 -> 8, f32>
// CHECK-NEXT:    %b1 = texpr.param "b1" split 0 of 16 over "model" : !texpr.tensor<8, f32>
// CHECK-NEXT:    %w2 = texpr.param "w2" split 1 of 16 over "model" : !texpr.tensor<8 -> 4, f32>
// CHECK-NEXT:    %h = texpr.apply [b, o] add= mul(%w1[o, k], %x[b, k]) over (b = 3, o = 8, k = 4) : !texpr.tensor<3 | 8, f32>
// CHECK-NEXT:    %r = texpr.apply [b, o] = relu(add(%h[b, o], %b1[o])) over (b = 3, o = 8) : !texpr.tensor<3 | 8, f32>
// CHECK-NEXT:    %y_part = texpr.apply [b, o] add= mul(%w2[o, k], %r[b, k]) over (b = 3, o = 4, k = 8) : !texpr.tensor<3 | 4, f32>
// CHECK-NEXT:    %y = texpr.all_reduce %y_part add over "model" : !texpr.tensor<3 | 4, f32>
// CHECK-NEXT:    texpr.forward %y
texpr.routine @tensor_parallel mesh (model = 2) {
  %x = texpr.data "x" : !texpr.tensor<3 | 4, f32>
  %w1 = texpr.param "w1" shard <"model" = output> : !texpr.tensor<4 -> 16, f32>
  %b1 = texpr.param "b1" : !texpr.tensor<16, f32>
  %w2 = texpr.param "w2" : !texpr.tensor<16 -> 4, f32>
  %h = texpr.apply [b, o] add= mul(%w1[o, k], %x[b, k]) over (b = 3, o = 16, k = 4) : !texpr.tensor<3 | 16, f32>
  %r = texpr.apply [b, o] = relu(add(%h[b, o], %b1[o])) over (b = 3, o = 16) : !texpr.tensor<3 | 16, f32>
  %y = texpr.apply [b, o] add= mul(%w2[o, k], %r[b, k]) over (b = 3, o = 4, k = 16) : !texpr.tensor<3 | 4, f32>
  texpr.forward %y
}

// -----

// Parameters and gradients in parts: the parameter is gathered, the sum of its gradient scattered.
// CHECK-LABEL: texpr.routine @in_parts
// CHECK:         %w = texpr.param "w" shard <"data" = output> split 0 of 16 over "data" : !texpr.tensor<4 -> 4, f32>
// CHECK-NEXT:    %w_whole = texpr.all_gather %w at 0 of 16 over "data" : !texpr.tensor<4 -> 16, f32>
// CHECK-NEXT:    %y = texpr.apply [b, o] add= mul(%w_whole[o, k], %x[b, k]) over (b = 2, o = 16, k = 4)
// CHECK-NEXT:    %g_part = texpr.apply [o, k] add= mul(%y[b, o], %x[b, k]) over (b = 2, o = 16, k = 4) : !texpr.tensor<4 -> 16, f32>
// CHECK-NEXT:    %g = texpr.reduce_scatter %g_part add to 0 over "data" : !texpr.tensor<4 -> 4, f32>
// CHECK-NEXT:    %w_grad = texpr.grad %w split 0 of 16 over "data" : !texpr.tensor<4 -> 4, f32>
// CHECK-NEXT:    %m = texpr.node "m" split 0 of 16 over "data" : !texpr.tensor<4 -> 4, f32>
// CHECK-NEXT:    texpr.assign %w_grad[o, k] = %g[o, k] over (o = 4, k = 4)
// CHECK-NEXT:    %n = texpr.apply [o, k] = add(%w_grad[o, k], %m[o, k]) over (o = 4, k = 4) : !texpr.tensor<4 -> 4, f32>
// CHECK-NEXT:    texpr.assign %m[o, k] = %n[o, k] over (o = 4, k = 4)
texpr.routine @in_parts mesh (data = 4) {
  %x = texpr.data "x" shard <"data" = 0> : !texpr.tensor<8 | 4, f32>
  %w = texpr.param "w" shard <"data" = output> : !texpr.tensor<4 -> 16, f32>
  %y = texpr.apply [b, o] add= mul(%w[o, k], %x[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<8 | 16, f32>
  %g = texpr.apply [o, k] add= mul(%y[b, o], %x[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<4 -> 16, f32>
  %w_grad = texpr.grad %w : !texpr.tensor<4 -> 16, f32>
  %m = texpr.node "m" : !texpr.tensor<4 -> 16, f32>
  texpr.assign %w_grad[o, k] = %g[o, k] over (o = 16, k = 4)
  %n = texpr.apply [o, k] = add(%w_grad[o, k], %m[o, k]) over (o = 16, k = 4) : !texpr.tensor<4 -> 16, f32>
  texpr.assign %m[o, k] = %n[o, k] over (o = 16, k = 4)
}

// -----

// Where data are split, too, they decide: a weight in parts is gathered for each operation that reads it.
// CHECK-LABEL: texpr.routine @for_each
// CHECK:         %w_whole = texpr.all_gather %w at 1 of 16 over "data" : !texpr.tensor<16 -> 16, f32>
// CHECK-NEXT:    %w_whole_1 = texpr.all_gather %w at 1 of 16 over "data" : !texpr.tensor<16 -> 16, f32>
// CHECK-NEXT:    %y = texpr.apply [b, o] add= mul(%w_whole_1[o, k], %x[b, k]) over (b = 2, o = 16, k = 16)
// CHECK-NEXT:    %z = texpr.apply [b, o] add= mul(%w_whole[o, k], %y[b, k]) over (b = 2, o = 16, k = 16)
// CHECK-NEXT:    texpr.forward %z
texpr.routine @for_each mesh (data = 4) {
  %x = texpr.data "x" shard <"data" = batch> : !texpr.tensor<8 | 16, f32>
  %w = texpr.param "w" shard <"data" = input> : !texpr.tensor<16 -> 16, f32>
  %y = texpr.apply [b, o] add= mul(%w[o, k], %x[b, k]) over (b = 8, o = 16, k = 16) : !texpr.tensor<8 | 16, f32>
  %z = texpr.apply [b, o] add= mul(%w[o, k], %y[b, k]) over (b = 8, o = 16, k = 16) : !texpr.tensor<8 | 16, f32>
  texpr.forward %z
}

// -----

// Positions and numbers are computed where they are needed. Terms of a sum are added up when all is done
// that adding does not change.
// CHECK-LABEL: texpr.routine @positions
// CHECK:         %[[START:.*]] = texpr.embed 2*model.rank : !texpr.tensor<i32>
// CHECK-NEXT:    %[[RANGE:.*]] = texpr.range : !texpr.tensor<2, i32>
// CHECK-NEXT:    %[[OWN:.*]] = texpr.apply [i] = add(%[[RANGE]][i], %[[START]][]) over (i = 2) : !texpr.tensor<2, i32>
// CHECK-NEXT:    %hot = texpr.apply [b, v] = eq(%ids[b], %[[OWN]][v]) over (b = 3, v = 2) : !texpr.tensor<3 | 2, f32>
// CHECK-NEXT:    %e = texpr.apply [b, o] add= mul(%hot[b, v], %w[o, v]) over (b = 3, o = 6, v = 2)
// CHECK-NEXT:    %s_part = texpr.apply [b, h, d] = %e[b, d + 3*h] over (b = 3, h = 2, d = 3) : !texpr.tensor<3 | 2, 3, f32>
// CHECK-NEXT:    %s = texpr.all_reduce %s_part add over "model" : !texpr.tensor<3 | 2, 3, f32>
texpr.routine @positions mesh (model = 2) {
  %ids = texpr.data "ids" : !texpr.tensor<3 | i32>
  %w = texpr.param "w" shard <"model" = input> : !texpr.tensor<4 -> 6, f32>
  %at = texpr.range : !texpr.tensor<4, i32>
  %hot = texpr.apply [b, v] = eq(%ids[b], %at[v]) over (b = 3, v = 4) : !texpr.tensor<3 | 4, f32>
  %e = texpr.apply [b, o] add= mul(%hot[b, v], %w[o, v]) over (b = 3, o = 6, v = 4) : !texpr.tensor<3 | 6, f32>
  %s = texpr.apply [b, h, d] = %e[b, 3*h + d] over (b = 3, h = 2, d = 3) : !texpr.tensor<3 | 2, 3, f32>
  texpr.forward %s
}

// -----

// What a window reads is whole: another axis is divided, at the cost of moving what was given.
// CHECK-LABEL: texpr.routine @windows
// CHECK:         %x = texpr.data "x" shard <"data" = output 1> split 1 of 10 over "data" : !texpr.tensor<3, 5, f32>
// CHECK-NEXT:    %x_part = texpr.all_to_all %x at 1 of 10 to 0 over "data" : !texpr.tensor<2, 10, f32>
// CHECK-NEXT:    %y = texpr.apply [a, o] add= %x_part[a, k + o] over (a = 2, o = 8, k = 3) split 0 of 3 over "data"
texpr.routine @windows mesh (data = 2) {
  %x = texpr.data "x" shard <"data" = output 1> : !texpr.tensor<3, 10, f32>
  %y = texpr.apply [a, o] add= %x[a, o + k] over (a = 3, o = 8, k = 3) : !texpr.tensor<3, 8, f32>
  texpr.forward %y
}

// -----

// A mesh axis after the other: collectives over the first are divided, too.
// CHECK-LABEL: texpr.routine @two_axes indices (data.rank = 2, model.rank = 2) mesh (data = 2, model = 2)
// CHECK:         %w = texpr.param "w" shard <"model" = output> split 0 of 16 over "model" : !texpr.tensor<4 -> 8, f32>
// CHECK:         %[[G:.*]] = texpr.all_reduce %{{.*}} add over "data" : !texpr.tensor<4 -> 8, f32>
// CHECK-NEXT:    %g = texpr.apply [i, i1] = %[[G]][i, i1] over (i = 8, i1 = 4) split 0 of 16 over "model" : !texpr.tensor<4 -> 8, f32>
texpr.routine @two_axes mesh (data = 2, model = 2) {
  %x = texpr.data "x" shard <"data" = batch> : !texpr.tensor<8 | 4, f32>
  %w = texpr.param "w" shard <"model" = output> : !texpr.tensor<4 -> 16, f32>
  %y = texpr.apply [b, o] add= mul(%w[o, k], %x[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<8 | 16, f32>
  %g = texpr.apply [o, k] add= mul(%y[b, o], %x[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<4 -> 16, f32>
  texpr.forward %g
}

// -----

texpr.routine @no_axis mesh (data = 2) {
  // expected-error @below {{`x` has no axis in its input row to split over "data": its shape is}}
  %x = texpr.data "x" shard <"data" = input> : !texpr.tensor<3, 10, f32>
}

// -----

texpr.routine @positions_of_parts mesh (data = 2) {
  %m = texpr.node "m" shard <"data" = output> : !texpr.tensor<8, f32>
  %i = texpr.data "i" : !texpr.tensor<i32>
  %v = texpr.data "v" : !texpr.tensor<1, f32>
  // expected-error @below {{the placements over "data" cannot be}}
  texpr.assign %m[at$0] by (%i[]) = %v[0] over ()
}

// -----

// Experts: tokens, which are split by group, go to their experts, which are split, too, and what these give goes back. Three
// experts are two and one.
// CHECK-LABEL: texpr.routine @experts indices (data.rank = 2) mesh (data = 2) {
// CHECK:         %to_part = texpr.apply [e, g, c, m] add= where(and(eq(%ids[g, s], %0[e]), eq(%place[g, s], %1[c])), %x[g, s, m], 0.0) over (e = 3, g = 2, c = 5, m = 8, s = 6)
// CHECK-NEXT:    %to = texpr.all_to_all %to_part at 1 of 4 to 0 over "data" : !texpr.tensor<2, 4, 5 | 8, f32>
// CHECK-NEXT:    %of = texpr.apply [e, g, c, h] add= mul(%w[e, h, m], %to[e, g, c, m]) over (e = 2, g = 4, c = 5, h = 8, m = 8)
// CHECK-NEXT:    %of_part = texpr.all_to_all %of at 0 of 3 to 1 over "data" : !texpr.tensor<3, 2, 5 | 8, f32>
// CHECK-NEXT:    %y = texpr.apply [g, s, m] add= where(and(eq(%ids[g, s], %0[e]), eq(%place[g, s], %1[c])), %of_part[e, g, c, m], 0.0) over (g = 2, s = 6, m = 8, e = 3, c = 5)
texpr.routine @experts mesh (data = 2) {
  %x = texpr.data "x" shard <"data" = batch> : !texpr.tensor<4, 6 | 8, f32>
  %ids = texpr.data "ids" shard <"data" = 0> : !texpr.tensor<4, 6, i32>
  %place = texpr.data "place" shard <"data" = 0> : !texpr.tensor<4, 6, i32>
  %w = texpr.param "w" shard <"data" = batch> : !texpr.tensor<3 | 8 -> 8, f32>
  %0 = texpr.range : !texpr.tensor<3, i32>
  %1 = texpr.range : !texpr.tensor<5, i32>
  %to = texpr.apply [e, g, c, m] add= where(and(eq(%ids[g, s], %0[e]), eq(%place[g, s], %1[c])), %x[g, s, m], 0.0) over (e = 3, g = 4, c = 5, m = 8, s = 6) shard <"data" = batch 0> : !texpr.tensor<3, 4, 5 | 8, f32>
  %of = texpr.apply [e, g, c, h] add= mul(%w[e, h, m], %to[e, g, c, m]) over (e = 3, g = 4, c = 5, h = 8, m = 8) shard <"data" = batch 0> : !texpr.tensor<3, 4, 5 | 8, f32>
  %y = texpr.apply [g, s, m] add= where(and(eq(%ids[g, s], %0[e]), eq(%place[g, s], %1[c])), %of[e, g, c, m], 0.0) over (g = 4, s = 6, m = 8, e = 3, c = 5) : !texpr.tensor<4, 6 | 8, f32>
  texpr.forward %y
}
