"""Padded batches of several threads on one network do not see each other's sizes."""

from threading import Barrier, Thread

import torch
from torch import Tensor, nn

from deep_patch_learning.model.backbone import PaddingGuard


def meet(together: Barrier) -> None:
    together.wait()


def test_two_threads_predict_as_one_after_the_other() -> None:
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, padding=1)
    ).eval()
    guard = PaddingGuard(body)
    batches = [
        (torch.rand(2, 3, 16, 20), torch.tensor([[16, 12], [9, 20]])),
        (torch.rand(2, 3, 12, 24), torch.tensor([[12, 10], [5, 24]])),
    ]
    with torch.no_grad():
        alone = [guard(body, *batch) for batch in batches]
    together = Barrier(2, timeout=30)
    body[1].register_forward_hook(lambda *_: meet(together))  # both threads are inside the body at once
    found: dict[int, Tensor] = {}

    def run(index: int) -> None:
        with torch.no_grad():
            found[index] = guard(body, *batches[index])

    threads = [Thread(target=run, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(found[index], alone[index]) for index in range(2))


def test_a_thread_without_padding_is_not_cut_by_one_with_it() -> None:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1)).eval()
    guard = PaddingGuard(body)
    images = torch.rand(1, 3, 16, 20)
    with torch.no_grad():
        alone = body(images)
    together = Barrier(2, timeout=30)
    body[1].register_forward_hook(lambda *_: meet(together))
    found: list[Tensor] = []

    def whole() -> None:
        with torch.no_grad():
            found.append(body(images))

    other = Thread(target=whole)
    other.start()
    with torch.no_grad():
        guard(body, images, torch.tensor([[8, 10]]))
    other.join()
    assert torch.equal(found[0], alone)
