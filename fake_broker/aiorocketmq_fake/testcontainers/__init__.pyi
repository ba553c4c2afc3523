from .errors import ContainerError as ContainerError
from .fake_server import FakeRocketMQContainer as FakeRocketMQContainer
from .real_server import RocketMQContainer as RocketMQContainer
