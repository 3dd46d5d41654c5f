"""The machines separate what can be separated, are the optimum they claim to be, and leave the network as it is."""

import numpy as np
import pytest
import torch

from deep_patch_learning.data.batch import Batch
from deep_patch_learning.evaluation.classification import classification_report
from deep_patch_learning.inference.model import Model
from deep_patch_learning.model.network import DeepPatchNet
from deep_patch_learning.patches import generator
from deep_patch_learning.patches.prepare import Prepared
from deep_patch_learning.research.peers.svm import build_frozen, choose_cost, features_of, fit, machines


def toy(images: int = 90, noise: float = 0.3) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    labels = (torch.rand(images, 3, generator=random) < 0.4).to(torch.int8)
    directions = torch.nn.functional.normalize(torch.randn(3, 16, generator=random), dim=1)
    features = labels.float() @ directions + noise * torch.randn(images, 16, generator=random)
    return features, labels


def test_separable_classes_are_separated() -> None:
    features, labels = toy(noise=0.01)
    linear, cost = machines(features, labels, costs=(1e-6, 10.0))
    assert ((linear(features) > 0) == (labels == 1)).all()
    assert cost == 10.0
    assert not any(parameter.requires_grad for parameter in linear.parameters())


@pytest.mark.parametrize("cost", [0.1, 10.0])
def test_the_machine_is_the_least_of_its_objective(cost: float) -> None:
    """One class at a time, by scikit-learn: its bias is held back too, but hardly, when it is scaled up."""
    sklearn_svm = pytest.importorskip("sklearn.svm")
    features, labels = toy()
    weight, bias = fit(features, labels, cost)
    for index in range(3):
        machine = sklearn_svm.LinearSVC(C=cost, dual=False, tol=1e-8, intercept_scaling=1e3, max_iter=100_000)
        machine.fit(features.double().numpy(), labels[:, index].numpy())
        np.testing.assert_allclose(weight[index].numpy(), machine.coef_[0], atol=1e-3)
        assert bias[index].item() == pytest.approx(machine.intercept_[0], abs=1e-3)


def test_unknown_labels_are_left_out() -> None:
    features, labels = toy()
    hidden = labels.clone()
    hidden[:30, 1] = -1
    weight, bias = fit(features, hidden, 1.0)
    fewer, fewer_bias = fit(features[30:], labels[30:], 1.0)
    torch.testing.assert_close(weight[1], fewer[1], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(bias[1], fewer_bias[1], rtol=1e-3, atol=1e-4)
    everything, _ = fit(features, labels, 1.0)
    torch.testing.assert_close(weight[0], everything[0], rtol=1e-3, atol=1e-4)


def test_a_class_without_an_image_scores_below_zero_everywhere() -> None:
    features, labels = toy()
    labels[:, 2] = 0
    weight, bias = fit(features, labels, 1.0)
    assert ((features.double() @ weight.T + bias)[:, 2] < -0.9).all()


def test_the_cost_is_the_one_that_ranks_held_out_images_best() -> None:
    features, labels = toy(noise=1.0)
    wide = torch.cat((features, 3 * torch.randn(90, 100, generator=torch.Generator().manual_seed(1))), dim=1)
    costs = (1e-4, 1e4)
    fold = torch.from_numpy(np.random.default_rng(2).permutation(90) % 3)
    found = []
    for cost in costs:
        scores = np.zeros((90, 3))
        for number in range(3):
            weight, bias = fit(wide[fold != number], labels[fold != number], cost, steps=100)
            scores[fold == number] = (wide[fold == number].double() @ weight.T + bias).numpy()
        found.append(classification_report(scores, labels.numpy(), ("a", "b", "c")).mean_ap)
    assert choose_cost(wide, labels, 2, costs) == costs[int(np.argmax(found))]


def test_features_leave_the_network_alone_and_have_length_one(
    parts: DeepPatchNet, small_prepared: Prepared, batch: Batch
) -> None:
    network = build_frozen(parts)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    model = Model(network, small_prepared.images.classes, (96, 128), generator("sliding-window"), "cpu")  # type: ignore[arg-type]
    few = small_prepared.images.subset(range(5))
    found = np.stack(list(features_of(model, few, images_per_micro_batch=2)))
    one_by_one = np.stack(list(features_of(model, few, images_per_micro_batch=1)))
    np.testing.assert_allclose(found, one_by_one, atol=1e-4)
    assert found.shape == (5, 128)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    torch.testing.assert_close(network.features(batch).norm(dim=1), torch.ones(3))
